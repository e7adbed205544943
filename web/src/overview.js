// The panel for the graph as a whole: sizes, what stands out, differences.

import { html } from './dom.js';
import { firstBroken, gradientNorm } from './model.js';
import { elements, facts, nodeLink, ranking, section } from './parts.js';
import { bytes, duration, number, place, result } from './text.js';

const UNKNOWN =
  'Values and gradients of this graph were not watched: it was made from a finished tensor. ' +
  'weft.graph(function, *args) runs the function and watches it.';

export function overview(model, choose) {
  const { source, nodes } = model;
  const leaves = nodes.filter((node) => node.leaf);
  const parameters = leaves.filter((node) => node.parameter);
  const parts = [
    html('h2', {}, source.title),
    facts([
      ['operations', (nodes.length - leaves.length).toLocaleString('en')],
      ['leaves', leaves.length.toLocaleString('en')],
      ...(parameters.length ? [['parameters', elements(parameters).toLocaleString('en')]] : []),
      ['kept for backward', bytes(source.kept)],
    ]),
  ];
  if (source.backward_error) {
    parts.push(
      html('p', { class: 'warning' }, `Gradients are not known: ${source.backward_error}`),
    );
  } else if (!source.observed) parts.push(html('p', { class: 'unknown' }, UNKNOWN));
  if (model.difference) parts.push(differences(model, choose));
  const broken = firstBroken(model);
  if (broken) {
    const where = broken.where === 'result' ? 'in the result of ' : 'in the gradients at ';
    parts.push(
      section(
        'First NaN or infinity',
        html(
          'p',
          { class: 'warning' },
          where,
          nodeLink(broken.node, choose),
          ` ${place(model, broken.node)}`,
        ),
      ),
    );
  }
  parts.push(ranking('Keeps most for backward', nodes, (node) => node.kept || 0, bytes, choose));
  const time = (node) => (node.forward_us || 0) + (node.backward_us || 0);
  parts.push(ranking('Takes longest, forward and backward', nodes, time, duration, choose));
  const known = nodes.filter((node) => typeof gradientNorm(node) === 'number');
  parts.push(ranking('Largest gradients', known, gradientNorm, (size) => number(size, 3), choose));
  parts.push(
    section(
      'Results',
      html(
        'ul',
        { class: 'links' },
        [...model.outputs].map(([node, name]) =>
          html(
            'li',
            {},
            nodeLink(node, choose),
            html('span', {}, name === 'output' ? result(node) : name),
          ),
        ),
      ),
    ),
  );
  return parts.filter(Boolean);
}

const MARKS = { new: '+', gone: '−', changed: '~' };
const MOST_CHANGES = 100;

function differences(model, choose) {
  const { before } = model.difference;
  // Where the cause may be comes first: gradients differ before whatever differs.
  const changes = [...model.difference.changes].sort((a, b) => a.only_gradient - b.only_gradient);
  const row = (change) =>
    html(
      'li',
      { class: change.kind },
      html('code', {}, MARKS[change.kind]),
      change.node === undefined
        ? html('span', {}, change.where)
        : nodeLink(model.nodes[change.node], choose),
      html('p', { class: 'quiet' }, (change.what || []).join('; ')),
    );
  const more = changes.length - MOST_CHANGES;
  return section(
    `Differences from ${before}`,
    changes.length ? null : html('p', { class: 'quiet' }, 'none'),
    html(
      'ul',
      { class: 'changes' },
      changes.slice(0, MOST_CHANGES).map(row),
      more > 0 ? html('li', { class: 'quiet' }, `and ${more} more`) : null,
    ),
  );
}
