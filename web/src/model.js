// The document as objects: nodes, groups around them, edges between nodes.

export const isNode = (item) => item.kind === 'node';

/** @typedef {{id: string, kind: string, parent: Group|null}} Item  a node or a group */

export class Model {
  constructor(source) {
    this.source = source;
    this.items = new Map(); // by id
    this.nodes = source.nodes.map((fields, position) => this.#node(fields, position));
    this.difference = source.difference || null;
    for (const change of this.difference?.changes || []) {
      if (change.node !== undefined) this.nodes[change.node].change = change;
    }
    this.groups = [];
    this.root = this.#group(source.groups, null);
    this.#link();
    this.outputs = new Map(
      Object.entries(source.outputs).map(([name, [position]]) => [this.nodes[position], name]),
    );
  }

  #node(fields, position) {
    const operation = this.source.operations[fields.op];
    const node = {
      ...operation,
      ...fields,
      id: `n${position}`,
      position,
      kind: 'node',
      parent: null,
      name: fields.leaf || operation.operation,
      fullName: fields.path || fields.leaf,
      producers: [],
      consumers: [],
    };
    this.items.set(node.id, node);
    return node;
  }

  #group(source, parent) {
    const group = {
      id: `g${this.groups.length}`,
      kind: source.kind,
      name: source.name || this.source.title,
      label: source.label || '',
      parent,
      open: false,
      count: 0, // operations inside
      kept: 0,
      changes: 0, // nodes inside that differ from the other graph
    };
    // As named_modules() calls it, below the outermost module.
    const path = parent?.path ? `${parent.path}.${group.name}` : group.name;
    group.path = group.kind === 'module' && parent ? path : parent?.path || '';
    group.fullName = group.kind === 'module' ? group.path : '';
    this.groups.push(group);
    this.items.set(group.id, group);
    const adopt = (member) => {
      if (typeof member !== 'number') return this.#group(member, group);
      this.nodes[member].parent = group;
      return this.nodes[member];
    };
    group.leaves = (source.leaves || []).map(adopt);
    group.members = (source.members || []).map(adopt);
    for (const item of [...group.leaves, ...group.members]) {
      group.count += item.kind === 'node' ? (item.leaf ? 0 : 1) : item.count;
      group.kept += item.kept || 0;
      group.changes += item.kind === 'node' ? Number(Boolean(item.change)) : item.changes;
    }
    return group;
  }

  #link() {
    for (const node of this.nodes) {
      for (const input of node.inputs || []) {
        if (!input) continue;
        const producer = this.nodes[input[0]];
        node.producers.push(producer);
        producer.consumers.push(node);
      }
    }
  }

  /** What stands for a node on the screen: itself, or the outermost closed group around it. */
  shown(item) {
    let visible = item;
    for (let group = item.parent; group; group = group.parent) if (!group.open) visible = group;
    return visible;
  }

  /** The groups around an item, innermost first. */
  around(item) {
    const groups = [];
    for (let group = item.parent; group; group = group.parent) groups.push(group);
    return groups;
  }

  /**
   * Opens groups level by level, as long as no more than `most` items are seen. The rounds of a
   * repeat and the parts of a run tell little one by one: they open together or not at all.
   */
  openUpTo(most) {
    const inside = (group) => [...group.leaves, ...group.members];
    this.root.open = true;
    let seen = inside(this.root).length;
    let level = [this.root];
    const open = (groups) => {
      const more = groups.reduce((sum, group) => sum + inside(group).length - 1, 0);
      if (seen + more > most) return [];
      seen += more;
      for (const group of groups) group.open = true;
      return groups;
    };
    while (level.length) {
      level = level.flatMap((parent) => {
        const closed = inside(parent).filter((item) => !isNode(item));
        const together = closed.filter(
          (group) => group.kind !== 'module' || parent.kind === 'repeat',
        );
        const alone = closed.filter((group) => !together.includes(group));
        return [...open(together), ...alone.flatMap((group) => open([group]))];
      });
    }
  }

  closeAll() {
    for (const group of this.groups) group.open = group === this.root;
  }

  /** Opens what hides an item. Returns the groups that were closed. */
  reveal(item) {
    const opened = this.around(item).filter((group) => !group.open);
    for (const group of opened) group.open = true;
    return opened;
  }
}

/** The first known value of a list of results or gradients. */
const firstValue = (values) => (values || []).find(Boolean) || null;

/** The 2-norm as a number or "nan", "inf"; null where it is not known. */
export function norm(value) {
  if (!value) return null;
  const { statistics } = value;
  if (!statistics)
    return typeof value.elements === 'number'
      ? Math.abs(value.elements)
      : String(value.elements).replace('-', '');
  if (statistics.nan) return 'nan';
  return statistics.inf ? 'inf' : statistics.norm || 0;
}

export const gradientNorm = (node) => norm(firstValue(node.gradients));

const isBroken = (value) => {
  if (!value) return false;
  return value.statistics
    ? value.statistics.nan || value.statistics.inf
    : typeof norm(value) === 'string';
};

/** Whether a value or gradient of the node holds what: "nan" or "inf". */
export function holds(node, what) {
  const values = [...(node.values || []), ...(node.gradients || []), ...(node.passed_on || [])];
  return values.some(
    (value) =>
      isBroken(value) && (value.statistics ? value.statistics[what] : norm(value) === what),
  );
}

/** Where NaN or infinity appeared first: {node, where: "result" | "gradient"}, or null. */
export function firstBroken(model) {
  const forward = model.nodes.find((node) => (node.values || []).some(isBroken));
  if (forward) return { node: forward, where: 'result' };
  const order = model.source.backward_order.map((position) => model.nodes[position]);
  const backward = order.find((node) =>
    [...(node.gradients || []), ...(node.passed_on || [])].some(isBroken),
  );
  return backward ? { node: backward, where: 'gradient' } : null;
}
