// What stands beside the picture: the graph as a whole, a group, or a node.

import { html } from './dom.js';
import { gradientNorm, isNode } from './model.js';
import { nodeDetails } from './node-panel.js';
import { overview } from './overview.js';
import { breadcrumb, elements, facts, ranking, section, shortened } from './parts.js';
import { bytes, number } from './text.js';

/** `choose(item)` is called when a link to another item is followed. */
export function showPanel(panel, model, item, mode, choose) {
  panel.scrollTop = 0;
  panel.replaceChildren(...content(model, item, mode, choose));
}

function content(model, item, mode, choose) {
  if (!item || item === model.root) return overview(model, choose);
  return isNode(item) ? nodeDetails(model, item, mode, choose) : groupDetails(model, item, choose);
}

const KINDS = {
  module: 'Module',
  repeat: 'Repeated',
  step: 'One round',
  run: 'Part of a long run',
  leaves: 'Leaves',
};

function groupDetails(model, group, choose) {
  const inside = [];
  const waiting = [group];
  while (waiting.length) {
    const item = waiting.pop();
    if (isNode(item)) inside.push(item);
    else waiting.push(...item.leaves, ...item.members);
  }
  const operations = inside.filter((node) => !node.leaf);
  const parameters = inside.filter((node) => node.parameter);
  const count = elements(parameters);
  const within = (node) =>
    shortened(
      node.fullName.startsWith(`${group.path}.`)
        ? node.fullName.slice(group.path.length + 1)
        : node.fullName,
    );
  const counts = new Map();
  for (const node of operations) counts.set(node.name, (counts.get(node.name) || 0) + 1);
  const kinds = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 8);
  return [
    html('p', { class: 'kind' }, KINDS[group.kind] || ''),
    html('h2', {}, group.name, group.label ? html('small', {}, ` ${group.label}`) : null),
    breadcrumb(model, group, choose),
    facts([
      ['operations', operations.length.toLocaleString('en')],
      ['kept for backward', bytes(group.kept)],
      ...(count ? [['parameters', count.toLocaleString('en')]] : []),
    ]),
    kinds.length
      ? section(
          'Operations',
          html(
            'ul',
            { class: 'chips' },
            kinds.map(([name, times]) => html('li', {}, times > 1 ? `${name} × ${times}` : name)),
          ),
        )
      : null,
    parameters.length
      ? ranking(
          'Gradients of parameters',
          parameters.filter((node) => typeof gradientNorm(node) === 'number'),
          gradientNorm,
          (size) => number(size, 3),
          choose,
          within,
        )
      : null,
  ].filter(Boolean);
}
