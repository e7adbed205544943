// The picture: SVG elements for the boxes and edges of a layout.

import { fitted, svg, textWidth } from './dom.js';
import { FONTS, boxLines } from './layout.js';
import { holds, isNode } from './model.js';

/** Draws all of it into `canvas`; returns {item id: element} and the edges' elements. */
export function draw(canvas, { boxes, edges, hubs }, handlers) {
  const behind = svg('g', { class: 'groups' });
  const lines = svg('g', { class: 'edges' });
  const front = svg('g', { class: 'boxes' });
  const elements = new Map();
  for (const box of boxes.values()) {
    if (!box.ports) {
      const element = drawBox(box, hubs, handlers);
      elements.set(box.item.id, element);
      front.append(element);
    } else if (box.item.parent) {
      const { frame, title } = drawFrame(box, handlers);
      elements.set(box.item.id, title);
      behind.append(frame);
      front.append(title);
    }
  }
  const drawn = edges.map((edge) => {
    const element = svg('path', {
      class: 'edge',
      d: curve(edge.points),
      'marker-end': edge.arrow ? 'url(#arrow)' : null,
    });
    lines.append(element);
    return { ...edge, element };
  });
  canvas.replaceChildren(behind, lines, front);
  return { elements, edges: drawn };
}

export const arrowHead = () =>
  svg(
    'defs',
    {},
    svg(
      'marker',
      {
        id: 'arrow',
        viewBox: '0 0 8 8',
        refX: 7,
        refY: 4,
        markerWidth: 9,
        markerHeight: 9,
        markerUnits: 'userSpaceOnUse',
        orient: 'auto',
      },
      svg('path', { d: 'M0 1 L7 4 L0 7 z', class: 'arrow' }),
    ),
  );

// A cubic B-spline through the ends, pulled towards the points between them.
function curve(points) {
  if (points.length < 3) {
    return `M${points.map(({ x, y }) => `${x.toFixed(1)} ${y.toFixed(1)}`).join('L')}`;
  }
  const mix = (a, b, c, [u, v, w]) =>
    `${((u * a.x + v * b.x + w * c.x) / 6).toFixed(1)} ${((u * a.y + v * b.y + w * c.y) / 6).toFixed(1)}`;
  const [first] = points;
  const last = points[points.length - 1];
  const all = [first, ...points, last];
  let path = `M${first.x.toFixed(1)} ${first.y.toFixed(1)}L${mix(first, first, points[1], [0, 5, 1])}`;
  for (let i = 1; i < all.length - 2; i += 1) {
    const [a, b, c] = all.slice(i, i + 3);
    path += `C${mix(a, b, c, [4, 2, 0])} ${mix(a, b, c, [2, 4, 0])} ${mix(a, b, c, [1, 4, 1])}`;
  }
  return `${path}L${last.x.toFixed(1)} ${last.y.toFixed(1)}`;
}

function drawBox({ item, x, y, width, height }, hubs, handlers) {
  const family = isNode(item) ? item.family : 'group';
  const classes = ['box', family];
  if (item.parameter) classes.push('parameter');
  if (isNode(item) && (holds(item, 'nan') || holds(item, 'inf'))) classes.push('broken');
  if (item.change || item.changes)
    classes.push(
      `differs-${item.change?.kind || 'changed'}`,
      item.change?.only_gradient ? 'slightly' : 'much',
    );
  const [name, ...rest] = boxLines(item, hubs);
  const box = svg('g', {
    class: classes.join(' '),
    transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})`,
    'data-id': item.id,
    role: 'button',
    'aria-label': [name, ...rest].join(', '),
    'aria-expanded': isNode(item) ? null : 'false',
    onclick: (event) => handlers.choose(item, event),
    ondblclick: () => !isNode(item) && handlers.toggle(item),
  });
  if (!isNode(item)) {
    // A second card behind the first: there is more inside.
    box.append(svg('rect', { class: 'behind', x: 4, y: 4, width, height, rx: 7 }));
  }
  const radius = item.leaf ? height / 2 : 7;
  box.append(svg('rect', { class: 'card', width, height, rx: Math.min(radius, 16) }));
  if (isNode(item) && !item.leaf) {
    box.append(svg('rect', { class: 'stripe', x: 0, y: 7, width: 4, height: height - 14, rx: 2 }));
  }
  box.append(svg('text', { class: 'name', x: 15, y: 19 }, fitted(name, FONTS.name, width - 26)));
  rest.forEach((line, i) => {
    const last = i === rest.length - 1;
    box.append(
      svg(
        'text',
        {
          class: last && line.startsWith('|grad|') ? 'detail grad' : 'detail',
          x: 15,
          y: 34 + i * 15,
        },
        fitted(line, FONTS.small, width - 26),
      ),
    );
  });
  if (!isNode(item)) box.append(chevron(width - 20, 14, false, () => handlers.toggle(item)));
  return box;
}

const depth = (item) => (item.parent ? depth(item.parent) + 1 : 0);

function drawFrame({ item, x, y, width, height }, handlers) {
  const transform = `translate(${x.toFixed(1)} ${y.toFixed(1)})`;
  const frame = svg(
    'g',
    { class: `frame ${item.kind} ${depth(item) % 2 ? 'odd' : 'even'}`, transform },
    svg('rect', { width, height, rx: 10 }),
  );
  const nameWidth = textWidth(item.name, FONTS.name);
  const labelWidth = item.label ? textWidth(item.label, FONTS.label) + 10 : 0;
  const title = svg(
    'g',
    {
      class: 'title',
      transform,
      'data-id': item.id,
      role: 'button',
      'aria-label': `${item.name} ${item.label}`,
      'aria-expanded': 'true',
      onclick: (event) => handlers.choose(item, event),
      ondblclick: () => handlers.toggle(item),
    },
    svg('rect', {
      class: 'plate',
      x: 6,
      y: 5,
      width: nameWidth + labelWidth + 34,
      height: 22,
      rx: 6,
    }),
    chevron(12, 16, true, () => handlers.toggle(item)),
    svg('text', { class: 'name', x: 28, y: 20 }, item.name),
    svg('text', { class: 'label', x: 38 + nameWidth, y: 20 }, item.label),
  );
  return { frame, title };
}

function chevron(x, y, open, act) {
  const click = (event) => {
    event.stopPropagation();
    act();
  };
  return svg(
    'g',
    { class: 'chevron', transform: `translate(${x} ${y})`, onclick: click },
    svg('rect', { x: -6, y: -11, width: 24, height: 22, opacity: 0 }),
    svg('path', { d: open ? 'M0 -3 L5 3 L10 -3' : 'M2 -5 L8 0 L2 5' }),
  );
}
