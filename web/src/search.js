// Finding nodes by operation, name, module path, line, or by what is wrong with them.

import { html } from './dom.js';
import { gradientNorm, holds } from './model.js';
import { place } from './text.js';

const MOST = 50;

// Words with a meaning of their own.
const SPECIAL = {
  nan: (node) => holds(node, 'nan'),
  inf: (node) => holds(node, 'inf'),
  'zero gradient': (node) => gradientNorm(node) === 0,
  new: (node) => node.change?.kind === 'new',
  changed: (node) => node.change?.kind === 'changed',
};

/** Groups and nodes that fit every word of the query. */
export function find(model, query) {
  const text = query.trim().toLowerCase();
  if (!text) return [];
  if (SPECIAL[text]) return model.nodes.filter(SPECIAL[text]);
  if (/^#\d+$/.test(text)) return [model.nodes[Number(text.slice(1)) - 1]].filter(Boolean);
  const words = text.split(/\s+/);
  const fits = (item) => words.every((word) => described(model, item).includes(word));
  const named = ['module', 'repeat'];
  return [
    ...model.groups.filter((group) => named.includes(group.kind) && fits(group)),
    ...model.nodes.filter(fits),
  ];
}

function described(model, item) {
  item.described ||= [
    item.name,
    item.fullName,
    item.label,
    item.grad_fn,
    item.module,
    item.kind === 'node' ? place(model, item) : '',
  ]
    .filter(Boolean)
    .join(' ')
    .toLowerCase();
  return item.described;
}

export class Search {
  constructor(input, list, model, choose) {
    Object.assign(this, { input, list, model, choose, found: [], at: 0 });
    input.addEventListener('input', () => this.#update());
    input.addEventListener('focus', () => this.#update());
    input.addEventListener('blur', () => setTimeout(() => this.#hide(), 150));
    input.addEventListener('keydown', (event) => this.#key(event));
  }

  #update() {
    this.found = find(this.model, this.input.value);
    this.at = 0;
    this.#show();
  }

  #show() {
    const { model, list, input } = this;
    list.hidden = !input.value.trim();
    const row = (item, i) =>
      html(
        'li',
        {
          role: 'option',
          'aria-selected': String(i === this.at),
          onmousedown: (event) => this.#take(event, item),
        },
        html('b', { class: item.family || 'group' }, item.fullName || item.name),
        html(
          'span',
          {},
          item.kind === 'node'
            ? [item.module, place(model, item)].filter(Boolean).join(' · ')
            : item.label,
        ),
      );
    const rows = this.found.slice(0, MOST).map(row);
    const more = this.found.length - rows.length;
    if (more > 0)
      rows.push(html('li', { class: 'quiet' }, `and ${more.toLocaleString('en')} more`));
    if (!rows.length)
      rows.push(
        html(
          'li',
          { class: 'quiet' },
          'nothing found; try an operation, a name, a module, file:line, #12, nan',
        ),
      );
    list.replaceChildren(...rows);
    list.children[this.at]?.scrollIntoView({ block: 'nearest' });
  }

  #hide() {
    this.list.hidden = true;
  }

  #take(event, item) {
    event.preventDefault();
    this.choose(item);
    this.#hide();
    this.input.blur();
  }

  #key(event) {
    const last = Math.min(this.found.length, MOST) - 1;
    if (event.key === 'ArrowDown') this.at = Math.min(last, this.at + 1);
    else if (event.key === 'ArrowUp') this.at = Math.max(0, this.at - 1);
    else if (event.key === 'Enter' && this.found[this.at])
      return this.#take(event, this.found[this.at]);
    else if (event.key === 'Escape') {
      this.input.value = '';
      this.#hide();
      return this.input.blur();
    } else return undefined;
    event.preventDefault();
    return this.#show();
  }
}
