// The panel for one node: its arguments and result, its gradient and the chain rule, its line.

import { html } from './dom.js';
import { gradientNorm, norm } from './model.js';
import { breadcrumb, nodeLink, section } from './parts.js';
import { bytes, duration, number, place, shape } from './text.js';
import { showValue } from './values.js';

export function nodeDetails(model, node, mode, choose) {
  const head = [
    html(
      'p',
      { class: `kind ${node.family}` },
      node.leaf ? (node.parameter ? 'parameter' : 'leaf') : `#${node.position + 1} ${node.grad_fn}`,
    ),
    html(
      'h2',
      {},
      node.leaf ? node.fullName : node.name,
      node.settings ? html('small', {}, ` ${node.settings}`) : null,
    ),
    breadcrumb(model, node, choose),
  ];
  if (node.change) {
    const what = node.change.what || ['was not there before'];
    head.push(
      section(
        `Difference: ${node.change.kind}`,
        what.map((text) => html('p', { class: 'difference' }, text)),
      ),
    );
  }
  const forward = [inputs(model, node, choose), results(model, node)];
  const backward = node.leaf
    ? [gradient(model, node)]
    : [gradient(model, node), chainRule(model, node, choose)];
  const order = mode === 'backward' ? [...backward, ...forward] : [...forward, ...backward];
  return [...head, ...order, consumers(node, choose), keeps(node), sourceText(model, node)].filter(
    Boolean,
  );
}

function inputs(model, node, choose) {
  if (!node.arguments) return null;
  const row = (name, i) => {
    const edge = node.inputs[i];
    if (!edge) {
      const constant = node.constants?.[i];
      return html(
        'li',
        {},
        html('code', {}, name),
        html('span', { class: 'quiet' }, 'needs no gradient'),
        constant ? showValue(constant) : null,
      );
    }
    const producer = model.nodes[edge[0]];
    const value = producer.values?.[edge[1]];
    return html(
      'li',
      {},
      html('code', {}, name),
      nodeLink(producer, choose),
      html('span', { class: 'quiet' }, shape(producer.shapes[edge[1]] || [])),
      value ? showValue(value) : null,
    );
  };
  return section('Arguments', html('ul', { class: 'arguments' }, node.arguments.map(row)));
}

function results(model, node) {
  const rows = node.shapes.map((sizes, k) => [
    html(
      'p',
      { class: 'type' },
      `${node.shapes.length > 1 ? `${k}: ` : ''}${shape(sizes)} ${node.dtypes[k]}`,
    ),
    showValue(node.values?.[k]),
  ]);
  const time = node.forward_us
    ? html('p', { class: 'quiet' }, `${duration(node.forward_us)} since the operation before`)
    : null;
  return section(node.leaf ? 'Value' : 'Result', rows, time);
}

function gradient(model, node) {
  if (!model.source.observed && !node.gradients) {
    return section(
      'Gradient',
      html('p', { class: 'unknown' }, 'not known: no backward pass was watched'),
    );
  }
  const size = gradientNorm(node);
  return section(
    node.leaf ? 'Gradient' : 'Gradient that arrives: g',
    size === null
      ? html('p', { class: 'unknown' }, 'no gradient reached it')
      : html('p', { class: 'norm' }, 'norm ', html('strong', {}, number(size, 5))),
    (node.gradients || []).map((value) => (value ? showValue(value) : null)),
  );
}

function chainRule(model, node, choose) {
  const rows = (node.arguments || []).map((name, i) => {
    const edge = node.inputs[i];
    if (!edge) return null;
    const formula = node.formulas[i] || `the derivative of ${node.operation}`;
    const passed = node.passed_on?.[i];
    const size = norm(passed);
    return html(
      'li',
      {},
      html('p', { class: 'formula' }, html('var', {}, `∂${name}`), ' = ', formula),
      html(
        'p',
        { class: 'quiet' },
        '→ ',
        nodeLink(model.nodes[edge[0]], choose),
        size === null ? null : `, norm ${number(size, 4)}`,
      ),
      passed ? showValue(passed) : null,
    );
  });
  const time = node.backward_us ? html('p', { class: 'quiet' }, duration(node.backward_us)) : null;
  return section('Chain rule', html('ul', { class: 'rule' }, rows), time);
}

function consumers(node, choose) {
  if (!node.consumers.length) return null;
  const shown = node.consumers.slice(0, 12);
  const more = node.consumers.length - shown.length;
  return section(
    'Used by',
    html(
      'ul',
      { class: 'chips' },
      shown.map((consumer) => html('li', {}, nodeLink(consumer, choose))),
      more ? html('li', { class: 'quiet' }, `and ${more} more`) : null,
    ),
  );
}

function keeps(node) {
  if (node.leaf) return null;
  if (node.freed)
    return section(
      'Kept for backward',
      html('p', { class: 'unknown' }, 'freed by a backward pass'),
    );
  if (!node.saved) return section('Kept for backward', html('p', { class: 'quiet' }, 'nothing'));
  const row = (saved) =>
    html(
      'li',
      {},
      html('code', {}, saved.name),
      html('span', { class: 'quiet' }, bytes(saved.bytes)),
      saved.error ? html('p', { class: 'warning' }, saved.error) : null,
      saved.value && saved.name !== 'result' ? showValue(saved.value) : null,
    );
  return section(
    `Kept for backward: ${bytes(node.kept)}`,
    html('ul', { class: 'arguments' }, node.saved.map(row)),
  );
}

function sourceText(model, node) {
  if (!node.place) return null;
  const [number_, line, name] = node.place;
  const file = model.source.files[number_];
  const rows = [];
  for (let n = line - 4; n <= line + 4; n += 1) {
    const text = file.lines[n];
    if (text === undefined) continue;
    rows.push(
      html(
        'tr',
        { class: n === line ? 'here' : null },
        html('th', {}, String(n)),
        html('td', {}, text || ' '),
      ),
    );
  }
  return section(
    'Recorded at',
    html('p', { class: 'file', title: file.name }, `${place(model, node)} in ${name}`),
    rows.length
      ? html('div', { class: 'source' }, html('table', {}, rows))
      : html('p', { class: 'unknown' }, 'the source is not at hand'),
  );
}
