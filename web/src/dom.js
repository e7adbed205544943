// Making elements. Text is always set as text: names in a graph are anybody's.

const SVG = 'http://www.w3.org/2000/svg';

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined),
  );
  return element;
}

/** html('a', {href: '#'}, 'text', otherElement) */
export const html = (tag, attributes = {}, ...children) =>
  fill(document.createElement(tag), attributes, children);

export const svg = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

export const byId = (id) => document.getElementById(id);

const ruler = document.createElement('canvas').getContext('2d');
const widths = new Map();

/** Width of a text in pixels. */
export function textWidth(text, font) {
  const key = font + text;
  let width = widths.get(key);
  if (width === undefined) {
    ruler.font = font;
    width = ruler.measureText(text).width;
    widths.set(key, width);
  }
  return width;
}

/** The text, or as much of it as fits with an ellipsis. */
export function fitted(text, font, width) {
  if (textWidth(text, font) <= width) return text;
  let length = Math.max(1, Math.floor((text.length * width) / textWidth(text, font)));
  while (length > 1 && textWidth(text.slice(0, length) + '…', font) > width) length -= 1;
  return text.slice(0, length) + '…';
}
