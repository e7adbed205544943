// Numbers, shapes and sizes as text.

export function number(value, digits = 4) {
  if (typeof value !== 'number') return String(value); // "nan", "inf", true
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return String(value).replace('-', '−');
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) {
    return value
      .toExponential(digits - 2)
      .replace('e+', 'e')
      .replaceAll('-', '−');
  }
  return String(Number(value.toPrecision(digits))).replace('-', '−');
}

export function bytes(count) {
  if (!count) return '0 B';
  const units = ['B', 'KB', 'MB', 'GB'];
  let unit = 0;
  let rest = count;
  while (rest >= 999.5 && unit < units.length - 1) {
    rest /= 1000;
    unit += 1;
  }
  return `${unit ? rest.toFixed(1) : rest} ${units[unit]}`;
}

export function duration(microseconds) {
  if (microseconds < 1e3) return `${number(microseconds, 3)} µs`;
  return microseconds < 1e6
    ? `${number(microseconds / 1e3, 3)} ms`
    : `${number(microseconds / 1e6, 3)} s`;
}

export const shape = (sizes) => (sizes.length ? `[${sizes.join(', ')}]` : 'scalar');

export function result(node) {
  const first = `${shape(node.shapes[0])} ${node.dtypes[0]}`;
  return node.shapes.length > 1 ? `${node.shapes.length} × ${first}` : first;
}

export const plural = (count, one, many = `${one}s`) =>
  `${count.toLocaleString('en')} ${count === 1 ? one : many}`;

export function place(model, node) {
  if (!node.place) return '';
  const [file, line] = node.place;
  return `${model.source.files[file].name.split(/[\\/]/).pop()}:${line}`;
}
