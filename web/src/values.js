// A tensor's values: small ones as a table with shades, large ones as statistics.

import { html } from './dom.js';
import { number, shape } from './text.js';

const SHOWN = ['min', 'max', 'mean', 'std', 'norm'];

/** `value`: {elements?, statistics?, shape?, dtype?}; null means that nobody looked. */
export function showValue(value) {
  if (!value) return html('p', { class: 'unknown' }, 'not known');
  const { elements, statistics } = value;
  const parts = [];
  if (value.shape) parts.push(html('p', { class: 'type' }, `${shape(value.shape)} ${value.dtype}`));
  if (!Array.isArray(elements) && elements !== undefined) {
    parts.push(html('p', { class: 'scalar' }, number(elements, 7)));
  } else if (elements && elements.flat(Infinity).length) {
    parts.push(...tables(elements));
  } else if (elements) parts.push(html('p', { class: 'unknown' }, 'no elements'));
  if (statistics && statistics.count > 1) parts.push(showStatistics(statistics));
  return html('div', { class: 'value' }, parts);
}

// The last two dimensions make a table; one table for each place in the others.
function tables(elements, path = '') {
  if (!Array.isArray(elements[0])) return [table([elements], path)];
  if (!Array.isArray(elements[0][0])) return [table(elements, path)];
  return elements.flatMap((part, i) => tables(part, `${path}[${i}]`));
}

function table(rows, path) {
  const finite = rows
    .flat()
    .filter((x) => typeof x === 'number')
    .map(Math.abs);
  const largest = Math.max(...finite, 0) || 1;
  const cell = (x) => {
    const strength = typeof x === 'number' ? Math.round((Math.abs(x) / largest) * 5) : 0;
    const sign =
      typeof x !== 'number'
        ? typeof x === 'boolean'
          ? ''
          : 'broken'
        : x < 0
          ? 'negative'
          : 'positive';
    return html('td', { class: sign, 'data-strength': strength }, number(x, 4));
  };
  return html(
    'div',
    { class: 'table' },
    path ? html('span', { class: 'path' }, path) : null,
    html(
      'table',
      {},
      rows.map((row) => html('tr', {}, row.map(cell))),
    ),
  );
}

function showStatistics(statistics) {
  const pairs = SHOWN.filter((name) => name in statistics).map((name) => [
    name,
    number(statistics[name]),
  ]);
  if (statistics.zeros) pairs.push(['zeros', `${statistics.zeros} of ${statistics.count}`]);
  const list = pairs.flatMap(([name, text]) => [html('dt', {}, name), html('dd', {}, text)]);
  for (const name of ['nan', 'inf']) {
    if (!statistics[name]) continue;
    list.push(html('dt', { class: 'broken' }, name === 'nan' ? 'NaN' : 'infinite'));
    list.push(html('dd', { class: 'broken' }, `${statistics[name]} of ${statistics.count}`));
  }
  return html('dl', { class: 'statistics' }, list);
}
