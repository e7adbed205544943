// Going through the recording, or the chain rule backwards, one node at a time.

import { byId, html } from './dom.js';

const PAUSE = 900; // milliseconds between steps while playing

export class Steps {
  /** `show(node, done)` is called with the node of a step and the set of nodes up to it. */
  constructor(model, show) {
    this.model = model;
    this.show = show;
    this.mode = 'browse';
    this.order = [];
    this.at = 0;
    this.timer = null;
    byId('stepper').addEventListener('click', (event) => {
      const step = event.target.closest('button')?.dataset.step;
      if (step) this.#press(step);
    });
    byId('position').addEventListener('input', (event) => this.go(Number(event.target.value)));
  }

  // The first step of each node, and of each group: that of the first node inside.
  #ranks() {
    const ranks = new Map();
    this.order.forEach((node, i) => {
      for (let item = node; item && !ranks.has(item); item = item.parent) ranks.set(item, i);
    });
    return ranks;
  }

  get active() {
    return this.mode !== 'browse';
  }

  start(mode, from = null) {
    this.stop();
    this.mode = mode;
    byId('stepper').hidden = !this.active;
    if (!this.active) return;
    const { nodes, source } = this.model;
    this.order =
      mode === 'forward' ? nodes : source.backward_order.map((position) => nodes[position]);
    this.rank = this.#ranks();
    byId('position').max = this.order.length - 1;
    this.go(from && this.rank.has(from) ? this.rank.get(from) : 0);
  }

  go(at) {
    this.at = Math.max(0, Math.min(this.order.length - 1, at));
    byId('position').value = this.at;
    const word = this.mode === 'forward' ? 'recorded' : 'differentiated';
    const count = `${this.at + 1} of ${this.order.length}`;
    byId('counter').replaceChildren(count, html('span', { class: 'optional' }, ` ${word}`));
    if (this.order.length) this.show(this.order[this.at]);
  }

  /** "past", "now" or "future"; of a group, what its first node is, or the node of this step. */
  tense(item) {
    const now = this.order[this.at];
    if (item === now || this.model.around(now).includes(item)) return 'now';
    return this.rank.get(item) < this.at ? 'past' : 'future';
  }

  move(by) {
    this.stop();
    this.go(this.at + by);
  }

  toggle() {
    if (this.timer) return this.stop();
    if (this.at === this.order.length - 1) this.go(0);
    this.timer = setInterval(() => {
      if (this.at >= this.order.length - 1) this.stop();
      else this.go(this.at + 1);
    }, PAUSE);
    return this.#label('Pause');
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    this.#label('Play');
  }

  #label(text) {
    document.querySelector('[data-step=play]').textContent = text;
  }

  #press(step) {
    if (step === 'play') return this.toggle();
    return this.move({ first: -Infinity, previous: -1, next: 1, last: Infinity }[step]);
  }
}
