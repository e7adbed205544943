// What the parts of the panel have in common: sections, links, lists with bars.

import { html } from './dom.js';

export const section = (title, ...children) => html('section', {}, html('h3', {}, title), children);

export function link(item, choose, text = null) {
  const label = text ?? `${item.name}`;
  return html(
    'button',
    {
      class: `link ${item.family || 'group'}`,
      title: item.fullName || label,
      onclick: () => choose(item),
    },
    label,
  );
}

export const nodeLink = (node, choose) =>
  link(node, choose, node.leaf ? node.fullName : `#${node.position + 1} ${node.name}`);

export function breadcrumb(model, item, choose) {
  const path = model.around(item).reverse();
  const links = path.flatMap((group, i) => [i ? ' › ' : null, link(group, choose)]);
  return html('nav', { class: 'path', 'aria-label': 'Where it stands' }, links);
}

// The end of a long path says more than its beginning.
const LONGEST = 22;
export const shortened = (text) => (text.length > LONGEST ? `…${text.slice(1 - LONGEST)}` : text);
const titleOf = (node) =>
  shortened(node.leaf ? node.fullName : `#${node.position + 1} ${node.name}`);

export function ranking(heading, nodes, measure, text, choose, title = titleOf) {
  const first = [...nodes]
    .sort((a, b) => measure(b) - measure(a))
    .slice(0, 5)
    .filter(measure);
  if (!first.length) return null;
  const most = measure(first[0]);
  const row = (node) =>
    html(
      'li',
      {},
      link(node, choose, title(node)),
      bar(measure(node) / most),
      html('span', {}, text(measure(node))),
    );
  return section(heading, html('ul', { class: 'links ranking' }, first.map(row)));
}

function bar(share) {
  const inner = html('i');
  inner.style.width = `${Math.max(2, share * 100)}%`;
  return html('span', { class: 'bar' }, inner);
}

export const elements = (nodes) =>
  nodes.reduce((sum, node) => sum + node.shapes[0].reduce((a, b) => a * b, 1), 0);

export const facts = (pairs) =>
  html(
    'dl',
    { class: 'facts' },
    pairs.flatMap(([name, text]) => [html('dt', {}, name), html('dd', {}, text)]),
  );
