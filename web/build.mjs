// Bundles src/ into one file, weft/graph/page.html, and the licences of what is inside it.
//
// The result is committed: building and testing weft needs no npm. tests/test_graph_bundle.py compares
// the fingerprint below with the sources, so a change here that was not built is noticed.

import { createHash } from 'node:crypto';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { build } from 'esbuild';

const here = (path) => new URL(path, import.meta.url);
const read = (path) => readFileSync(here(path), 'utf8');

const options = { bundle: true, minify: true, write: false, charset: 'utf8', target: 'es2022' };
const bundled = async (entry) => {
  const result = await build({
    ...options,
    entryPoints: [here(entry).pathname],
    legalComments: 'none',
  });
  return result.outputFiles[0].text.trim();
};

const inputs = [
  'build.mjs',
  'package-lock.json',
  ...readdirSync(here('src'))
    .sort()
    .map((name) => `src/${name}`),
];
const fingerprint = createHash('sha256');
for (const input of inputs) fingerprint.update(`${input}\n${read(input)}\n`);

const fill = (text, place, content) => {
  const parts = text.split(place);
  if (parts.length !== 2) throw new Error(`expected ${place} once`);
  return parts.join(content);
};

let page = read('src/page.html');
page = fill(page, '/*styles*/', await bundled('src/page.css'));
page = fill(
  page,
  '/*script*/',
  (await bundled('src/main.js')).replaceAll('</script', '<\\/script'),
);
page = fill(
  page,
  '<html lang="en">',
  `<html lang="en" data-sources="${fingerprint.digest('hex')}">`,
);
writeFileSync(here('../weft/graph/page.html'), page);

const licences = Object.keys(JSON.parse(read('package-lock.json')).packages)
  .filter((path) => path.startsWith('node_modules/@dagrejs/'))
  .map((path) => {
    const { name, version, license } = JSON.parse(read(`${path}/package.json`));
    return `${name} ${version} (${license})\n\n${read(`${path}/LICENSE`).trim()}\n`;
  });
const heading = 'page.html contains these libraries, minified.\n\n';
writeFileSync(here('../weft/graph/page.licences.txt'), heading + licences.join('\n----\n\n'));
console.log(`weft/graph/page.html: ${(page.length / 1000).toFixed(0)} KB`);
