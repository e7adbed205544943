// Where everything stands. Note [One level at a time]
//
// Each open group is laid out by itself, from the inside out, by dagre (layered layout); seen from
// outside it is one box. So opening a group costs the layout of that group and those around it, of
// at most some dozens of boxes each, however many nodes the graph has.
//
// An edge between two groups enters and leaves them through ports: points on a group's upper and
// lower border, one for each box outside or inside that the edges come from. Inside the group a port
// is a box of no height, held at the border by edges of great weight.

import dagre from '@dagrejs/dagre';
import { textWidth } from './dom.js';
import { gradientNorm, isNode } from './model.js';
import { bytes, number, plural, result } from './text.js';

export const FONTS = {
  name: '600 13px system-ui, sans-serif',
  small: '11px ui-monospace, "DejaVu Sans Mono", monospace',
  label: '12px system-ui, sans-serif',
};
const PADDING = 14;
const TITLE = 30;
const ROOM = 12; // for edges between a border and the boxes next to it
const NOTHING = { edges: new Map(), enter: new Set(), leave: new Set() };

/** The lines of text in a box; the first is its name. */
export function boxLines(item, hubs = new Map()) {
  if (!isNode(item)) {
    const lines = [item.name];
    if (item.label) lines.push(item.label);
    const size = item.kind === 'leaves' ? '' : plural(item.count, 'operation');
    const kept = item.kept ? `${bytes(item.kept)} kept` : '';
    const rest = [size, kept].filter(Boolean).join(', ');
    const changes = item.changes ? plural(item.changes, 'difference') : '';
    return [...lines, rest, changes].filter(Boolean);
  }
  const lines = [item.name, result(item)];
  const size = gradientNorm(item);
  if (size !== null) lines.push(`|grad| ${number(size, 3)}`);
  if (item.change) lines.push(item.change.kind);
  if (hubs.has(item)) lines.push(`${plural(item.consumers.length, 'use')}, not drawn`);
  return lines;
}

function boxSize(item, hubs) {
  const [name, ...rest] = boxLines(item, hubs);
  const widest = Math.max(
    textWidth(name, FONTS.name) + (isNode(item) ? 0 : 20),
    ...rest.map((line) => textWidth(line, FONTS.small)),
  );
  return { width: Math.min(300, Math.ceil(widest) + 30), height: 18 + rest.length * 15 + 8 };
}

/** @returns {{boxes: Map, edges: Array, width: number, height: number}} */
export function layout(model, { leaves }) {
  model.hubs = hubs(model);
  const levels = collectEdges(model, leaves);
  const sizes = new Map();
  measure(model.root, { levels, sizes, leaves, hubs: model.hubs });
  const found = { boxes: new Map(), edges: [] };
  place(model.root, 0, 0, levels, sizes, found);
  const { width, height } = sizes.get(model.root);
  return { ...found, width, height, hubs: model.hubs };
}

// A weight that is used in many places would cover the picture with lines. Its edges are not drawn:
// its box says how often it is used, and whoever chooses it sees where.
const MOST_USES = 4;

function hubs(model) {
  const found = new Map();
  for (const leaf of model.nodes) {
    if (!leaf.leaf || leaf.consumers.length <= MOST_USES) continue;
    const uses = new Set(leaf.consumers.map((consumer) => model.shown(consumer)));
    if (uses.size > MOST_USES) found.set(leaf, uses);
  }
  return found;
}

// What is to be drawn inside each open group: edges between its members and its ports.
function collectEdges(model, withLeaves) {
  const levels = new Map();
  const level = (group) => {
    if (!levels.has(group))
      levels.set(group, { edges: new Map(), enter: new Set(), leave: new Set() });
    return levels.get(group);
  };
  const add = (group, from, to, source, target) => {
    const key = `${from}>${to}>${source.id}`;
    const { edges } = level(group);
    if (!edges.has(key)) edges.set(key, { from, to, source, targets: new Set() });
    edges.get(key).targets.add(target);
  };
  for (const consumer of model.nodes) {
    for (const producer of consumer.producers) {
      if (producer.leaf && (!withLeaves || model.hubs.has(producer))) continue;
      const source = model.shown(producer);
      const target = model.shown(consumer);
      if (source !== target) connect(source, target, level, add);
    }
  }
  return levels;
}

function connect(source, target, level, add) {
  const above = new Set();
  for (let group = target.parent; group; group = group.parent) above.add(group);
  let from = source;
  while (!above.has(from.parent)) {
    level(from.parent).leave.add(source);
    add(from.parent, from.id, `leave ${source.id}`, source, target);
    from = from.parent;
  }
  let to = target;
  while (to.parent !== from.parent) {
    level(to.parent).enter.add(source);
    add(to.parent, `enter ${source.id}`, to.id, source, target);
    to = to.parent;
  }
  add(from.parent, from.id, to.id, source, target);
}

const contents = (group, withLeaves) => [...(withLeaves ? group.leaves : []), ...group.members];

function measure(group, pass) {
  const { levels, sizes, leaves, hubs } = pass;
  const graph = new dagre.graphlib.Graph({ multigraph: true });
  graph.setGraph({ rankdir: 'TB', nodesep: 22, ranksep: 34, edgesep: 12, marginx: 0, marginy: 0 });
  for (const item of contents(group, leaves)) {
    if (item.open) measure(item, pass);
    const size = item.open ? sizes.get(item) : boxSize(item, hubs);
    graph.setNode(item.id, { width: size.width, height: size.height });
  }
  const { edges, enter, leave } = levels.get(group) || NOTHING;
  for (const edge of edges.values()) {
    graph.setEdge(edge.from, edge.to, { minlen: 1, weight: 1 }, edge.source.id);
  }
  holdAtBorder(graph, contents(group, leaves), enter, leave);
  dagre.layout(graph);
  const inner = extent(graph);
  const title = (group.parent ? TITLE : 0) + (enter.size ? ROOM : 0);
  const width = Math.max(inner.width, group.parent ? titleWidth(group) : 0);
  sizes.set(group, {
    graph,
    left: PADDING + (width - inner.width) / 2 - inner.left,
    top: title + PADDING - inner.top,
    width: width + 2 * PADDING,
    height: inner.height + title + (leave.size ? ROOM : 0) + 2 * PADDING,
  });
}

// What boxes cover, and edges from side to side; dagre counts the boxes only. The ports are left out:
// they stand on the border, wherever that will be.
function extent(graph) {
  let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
  for (const id of graph.nodes()) {
    if (isPort(id)) continue;
    const { x, y, width, height } = graph.node(id);
    left = Math.min(left, x - width / 2);
    right = Math.max(right, x + width / 2);
    top = Math.min(top, y - height / 2);
    bottom = Math.max(bottom, y + height / 2);
  }
  if (right < left) return { left: 0, top: 0, width: 0, height: 0 };
  for (const edge of graph.edges()) {
    if (edge.name === 'border') continue;
    for (const { x } of graph.edge(edge).points) {
      left = Math.min(left, x);
      right = Math.max(right, x);
    }
  }
  return { left, top, width: right - left, height: bottom - top };
}

const isPort = (id) => id.startsWith('enter') || id.startsWith('leave');

const titleWidth = (group) =>
  textWidth(group.name, FONTS.name) +
  (group.label ? textWidth(group.label, FONTS.label) + 12 : 0) +
  30;

// Above all that has nothing above it comes one point, and right below it the upper ports; the same
// below. These edges only hold things in place and are never drawn.
function holdAtBorder(graph, items, enter, leave) {
  const top = items.filter((item) => !graph.inEdges(item.id).length);
  const bottom = items.filter((item) => !graph.outEdges(item.id).length);
  if (enter.size) graph.setNode('enter', { width: 0, height: 0 });
  if (leave.size) graph.setNode('leave', { width: 0, height: 0 });
  for (const source of enter) {
    graph.setNode(`enter ${source.id}`, { width: 10, height: 0 });
    graph.setEdge('enter', `enter ${source.id}`, { weight: 50 }, 'border');
  }
  for (const source of leave) {
    graph.setNode(`leave ${source.id}`, { width: 10, height: 0 });
    graph.setEdge(`leave ${source.id}`, 'leave', { weight: 50 }, 'border');
  }
  if (enter.size) for (const item of top) graph.setEdge('enter', item.id, { weight: 0 }, 'border');
  if (leave.size)
    for (const item of bottom) graph.setEdge(item.id, 'leave', { weight: 0 }, 'border');
}

// From the outside in: positions inside a group become positions on the canvas.
function place(group, x, y, levels, sizes, found) {
  const size = sizes.get(group);
  const ports = { enter: new Map(), leave: new Map() };
  found.boxes.set(group.id, { item: group, x, y, width: size.width, height: size.height, ports });
  const at = (point) => ({ x: x + size.left + point.x, y: y + size.top + point.y });
  for (const id of size.graph.nodes()) {
    const node = size.graph.node(id);
    const [kind, source] = id.split(' ');
    if (isPort(id)) {
      if (source) ports[kind].set(source, at(node).x);
      continue;
    }
    const centre = at(node);
    const [left, top] = [centre.x - node.width / 2, centre.y - node.height / 2];
    if (sizes.has(itemOf(group, id))) place(itemOf(group, id), left, top, levels, sizes, found);
    else {
      const item = itemOf(group, id);
      found.boxes.set(id, { item, x: left, y: top, width: node.width, height: node.height });
    }
  }
  for (const edge of levels.get(group)?.edges.values() || []) {
    const { points } = size.graph.edge(edge.from, edge.to, edge.source.id);
    found.edges.push(joined(edge, points.map(at), { x, y, ...size }, found.boxes));
  }
}

const itemOf = (group, id) =>
  (group.byId ||= new Map([...group.leaves, ...group.members].map((item) => [item.id, item]))).get(
    id,
  );

// Both ends put exactly on the border that they touch, at the port where there is one.
function joined(edge, points, group, boxes) {
  const last = points.length - 1;
  for (const point of points) {
    point.y = Math.min(Math.max(point.y, group.y), group.y + group.height);
  }
  const fromBox = boxes.get(edge.from);
  const toBox = boxes.get(edge.to);
  const enters = edge.from.startsWith('enter ');
  const leaves = edge.to.startsWith('leave ');
  if (enters) points[0] = { x: points[0].x, y: group.y };
  else if (fromBox) {
    const port = fromBox.ports?.leave.get(edge.source.id);
    points[0] = { x: port ?? points[0].x, y: fromBox.y + fromBox.height };
  }
  if (leaves) points[last] = { x: points[last].x, y: group.y + group.height };
  else if (toBox) {
    const port = toBox.ports?.enter.get(edge.source.id);
    points[last] = { x: port ?? points[last].x, y: toBox.y };
  }
  return {
    points,
    source: edge.source,
    targets: edge.targets,
    arrow: !leaves && !toBox?.ports,
  };
}
