// The page as a whole: what is chosen, what is open, which mode is on.

import { Camera } from './camera.js';
import { byId, html, svg } from './dom.js';
import { arrowHead, draw } from './draw.js';
import { fillHelp, listenForKeys } from './keys.js';
import { layout } from './layout.js';
import { Model, isNode } from './model.js';
import { showPanel } from './panel.js';
import { Search } from './search.js';
import { Steps } from './steps.js';
import { bytes, plural } from './text.js';

const AT_FIRST = 45; // items shown when the page opens
const AT_MOST = 600; // more than that takes seconds to lay out, and nobody can read it
const FAMILIES = 'product elementwise activation normalisation reduction loss shape leaf'.split(
  ' ',
);

export class App {
  constructor(source) {
    this.model = new Model(source);
    this.model.openUpTo(AT_FIRST);
    this.leaves = true;
    this.chosen = null;
    this.openedBySteps = [];
    this.picture = svg('g', { class: 'picture' });
    byId('canvas').append(arrowHead(), this.picture);
    this.camera = new Camera(byId('stage'), this.picture);
    this.steps = new Steps(this.model, (node) => this.#showStep(node));
    this.search = new Search(byId('query'), byId('found'), this.model, (item) => this.choose(item));
    this.#fillBars();
    this.#listen();
    this.redraw();
    this.fit(false);
    this.choose(null);
  }

  #fillBars() {
    const { source, nodes } = this.model;
    const operations = nodes.filter((node) => !node.leaf).length;
    byId('title').textContent = source.title;
    byId('totals').textContent = `${plural(operations, 'operation')} · ${bytes(source.kept)} kept`;
    const present = new Set(nodes.map((node) => node.family));
    const shown = FAMILIES.filter((family) => present.has(family));
    byId('legend').append(...shown.map((family) => html('li', { class: family }, family)));
    fillHelp(byId('help'), this);
  }

  #listen() {
    listenForKeys(this);
    byId('modes').addEventListener('click', (event) => {
      const { mode } = event.target.dataset;
      if (mode) this.setMode(mode);
    });
    const actions = {
      leaves: () => this.toggleLeaves(),
      theme: () => this.toggleTheme(),
      help: () => this.help(),
      'zoom-in': () => this.camera.zoom(1.25, undefined, undefined, true),
      'zoom-out': () => this.camera.zoom(0.8, undefined, undefined, true),
      fit: () => this.fit(),
    };
    document.body.addEventListener('click', (event) => actions[event.target.dataset?.do]?.());
    byId('canvas').addEventListener('click', (event) => {
      if (event.target === byId('canvas') && !this.camera.moved) this.leave();
    });
  }

  // ---- the picture --------------------------------------------------------------------------------

  redraw() {
    this.layout = layout(this.model, { leaves: this.leaves });
    const handlers = {
      choose: (item) => !this.camera.moved && this.choose(item, { bring: false }),
      toggle: (item) => this.toggle(item),
    };
    this.drawn = draw(this.picture, this.layout, handlers);
    this.#mark();
  }

  /** Lays out again; `item` (or what stands for it) stays where it is on the screen. */
  #redrawAround(item) {
    const before =
      this.layout.boxes.get(this.model.shown(item).id) || this.layout.boxes.get(item.id);
    this.redraw();
    const after = this.layout.boxes.get(this.model.shown(item).id);
    if (before && after) this.camera.hold(before, after);
  }

  #mark() {
    const { elements, edges } = this.drawn;
    const shown = this.chosen && this.model.shown(this.chosen);
    const linked = this.layout.hubs.get(this.chosen) || new Set();
    for (const [id, element] of elements) {
      const item = this.model.items.get(id);
      element.classList.toggle('chosen', item === shown);
      element.classList.toggle('linked', linked.has(item));
      const tense = this.steps.active && !item.open ? this.steps.tense(item) : null;
      for (const name of ['past', 'now', 'future']) element.classList.toggle(name, tense === name);
    }
    for (const { element, source, targets } of edges) {
      element.classList.toggle('out', source === shown);
      element.classList.toggle('in', targets.has(shown));
      const waiting =
        this.steps.active &&
        [source, ...targets].some((item) => this.steps.tense(item) === 'future');
      element.classList.toggle('future', waiting);
    }
  }

  fit(smooth = true) {
    const { width, height } = this.layout;
    this.camera.fit(width, height, { smooth, whole: smooth });
  }

  // ---- choosing, opening, closing -----------------------------------------------------------------

  /** Chooses an item, opening what hides it. */
  choose(item, { bring = true } = {}) {
    this.chosen = item;
    if (item && item !== this.model.root) {
      if (!item.leaf || this.leaves) {
        if (this.model.reveal(item).length) this.#redrawAround(item);
      } else this.toggleLeaves();
      const box = this.layout.boxes.get(item.id);
      if (bring && box) this.camera.show(box);
    }
    this.#mark();
    showPanel(byId('panel'), this.model, item, this.steps.mode, (other) => this.choose(other));
    document.body.classList.toggle('detailed', Boolean(item));
  }

  leave() {
    if (this.steps.active) this.setMode('browse');
    this.choose(null);
  }

  toggle(group) {
    if (group === this.model.root) return;
    group.open = !group.open;
    this.#redrawAround(group);
    this.choose(group, { bring: !group.open });
  }

  toggleChosen() {
    if (this.chosen && !isNode(this.chosen)) this.toggle(this.chosen);
  }

  closeAround() {
    const { chosen } = this;
    const group = chosen && !isNode(chosen) && chosen.open ? chosen : chosen?.parent;
    if (group && group !== this.model.root) this.toggle(group);
  }

  openMore() {
    this.model.closeAll();
    this.model.openUpTo(AT_MOST);
    this.redraw();
    this.fit(false);
    const closed = [...this.layout.boxes.values()].some(
      ({ item, ports }) => !isNode(item) && !ports,
    );
    this.#note(closed ? 'Some groups stay closed: all at once would be unreadable.' : '');
  }

  reset() {
    this.setMode('browse');
    this.model.closeAll();
    this.model.openUpTo(AT_FIRST);
    this.redraw();
    this.fit(false);
    this.choose(null);
  }

  /** To a neighbour along the edges. */
  follow(direction) {
    if (!this.chosen) return this.choose([...this.model.outputs.keys()][0]);
    const inside = this.#nodesOf(this.chosen);
    const next = inside.flatMap((node) => node[direction]).find((node) => !inside.includes(node));
    return next && this.choose(next);
  }

  #nodesOf(item) {
    return isNode(item)
      ? [item]
      : [...item.leaves, ...item.members].flatMap((inner) => this.#nodesOf(inner));
  }

  neighbour(by) {
    const { nodes } = this.model;
    const from = this.chosen ? this.#nodesOf(this.chosen)[0].position : by > 0 ? -1 : nodes.length;
    const next = nodes[from + by];
    if (next) this.choose(next);
  }

  // ---- modes --------------------------------------------------------------------------------------

  setMode(mode) {
    if (mode === this.steps.mode) return;
    document.body.dataset.mode = mode;
    for (const button of byId('modes').children) {
      button.setAttribute('aria-checked', String(button.dataset.mode === mode));
    }
    this.openedBySteps = [];
    const from = this.chosen && isNode(this.chosen) ? this.chosen : null;
    this.steps.start(mode, from);
    if (mode === 'browse') this.choose(this.chosen);
  }

  // What a step opened is closed again when the steps have left it.
  #showStep(node) {
    const around = new Set(this.model.around(node));
    const left = this.openedBySteps.filter((group) => !around.has(group));
    for (const group of left) group.open = false;
    const opened = this.model.reveal(node);
    this.openedBySteps = [...this.openedBySteps.filter((group) => around.has(group)), ...opened];
    if (left.length || opened.length) this.#redrawAround(node);
    this.choose(node);
  }

  // ---- the rest -----------------------------------------------------------------------------------

  toggleLeaves() {
    this.leaves = !this.leaves;
    document.querySelector('[data-do=leaves]').setAttribute('aria-pressed', String(this.leaves));
    this.redraw();
  }

  toggleTheme() {
    const root = document.documentElement;
    const dark = root.dataset.theme
      ? root.dataset.theme === 'dark'
      : matchMedia('(prefers-color-scheme: dark)').matches;
    root.dataset.theme = dark ? 'light' : 'dark';
  }

  focusSearch() {
    byId('query').focus();
    byId('query').select();
  }

  help() {
    byId('help').showModal();
  }

  #note(text) {
    byId('note').textContent = text;
    byId('note').hidden = !text;
    clearTimeout(this.noteTimer);
    this.noteTimer = setTimeout(() => {
      byId('note').hidden = true;
    }, 4000);
  }
}
