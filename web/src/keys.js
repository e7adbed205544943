// The keyboard, and the page of help that documents it.

import { html } from './dom.js';

/** What each key does; the same table is the help. */
function keyTable(app) {
  const { steps, camera } = app;
  const either = (stepping, otherwise) => () => (steps.active ? stepping() : otherwise());
  return [
    ['Looking around'],
    ['↑', 'to the first argument', 'ArrowUp', () => app.follow('producers')],
    ['↓', 'to the first use', 'ArrowDown', () => app.follow('consumers')],
    [
      '← →',
      'the neighbour in the order of recording; a step back or on',
      'ArrowLeft',
      either(
        () => steps.move(-1),
        () => app.neighbour(-1),
      ),
    ],
    [
      null,
      null,
      'ArrowRight',
      either(
        () => steps.move(1),
        () => app.neighbour(1),
      ),
    ],
    ['Enter', 'open or close the chosen group', 'Enter', () => app.toggleChosen()],
    ['c', 'close the group around what is chosen', 'c', () => app.closeAround()],
    ['e', 'open as much as stays readable', 'e', () => app.openMore()],
    ['r', 'as it was at first', 'r', () => app.reset()],
    ['Esc', 'choose nothing', 'Escape', () => app.leave()],
    [
      '/',
      'search: operation, name, module, file:line, #12, nan, inf, zero gradient, new, changed',
      '/',
      () => app.focusSearch(),
    ],
    ['The picture'],
    ['+ −', 'zoom', '+', () => camera.zoom(1.25, undefined, undefined, true)],
    [null, null, '=', () => camera.zoom(1.25, undefined, undefined, true)],
    [null, null, '-', () => camera.zoom(0.8, undefined, undefined, true)],
    ['f', 'fit all of it into the window', 'f', () => app.fit()],
    ['l', 'show or hide parameters and inputs', 'l', () => app.toggleLeaves()],
    ['t', 'light or dark', 't', () => app.toggleTheme()],
    ['Step by step'],
    [
      '1 2 3',
      'browse; step through the recording; through the chain rule',
      '1',
      () => app.setMode('browse'),
    ],
    [null, null, '2', () => app.setMode('forward')],
    [null, null, '3', () => app.setMode('backward')],
    [
      'Space',
      'play or pause',
      ' ',
      either(
        () => steps.toggle(),
        () => app.toggleChosen(),
      ),
    ],
    [
      'Home End',
      'first and last step',
      'Home',
      either(
        () => steps.move(-Infinity),
        () => app.fit(),
      ),
    ],
    [
      null,
      null,
      'End',
      either(
        () => steps.move(Infinity),
        () => app.fit(),
      ),
    ],
    ['?', 'this page', '?', () => app.help()],
  ];
}

export function listenForKeys(app) {
  const actions = new Map(
    keyTable(app)
      .filter((row) => row.length > 1)
      .map(([, , key, act]) => [key, act]),
  );
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.target.matches('input') && event.target.id !== 'position') return;
    if (event.target.matches('button') && (event.key === 'Enter' || event.key === ' ')) return;
    if (document.querySelector('dialog[open]')) return;
    const act = actions.get(event.key);
    if (!act) return;
    event.preventDefault();
    act();
  });
}

export function fillHelp(dialog, app) {
  const rows = keyTable(app)
    .filter(([keys]) => keys)
    .map(([keys, text]) => {
      if (!text) return html('tr', {}, html('th', { colspan: 2 }, keys));
      return html(
        'tr',
        {},
        html(
          'td',
          {},
          keys.split(' ').map((key) => html('kbd', {}, key)),
        ),
        html('td', {}, text),
      );
    });
  dialog.replaceChildren(
    html('h2', {}, 'Keys'),
    html('table', {}, rows),
    html(
      'p',
      {},
      'Mouse and touch: drag to move, wheel or pinch to zoom, click to choose, double-click to open or close a group.',
    ),
    html('form', { method: 'dialog' }, html('button', {}, 'Close')),
  );
}
