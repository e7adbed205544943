import { App } from './app.js';
import { byId } from './dom.js';

const app = new App(JSON.parse(byId('document').textContent));
document.body.dataset.mode = 'browse';
document.querySelector('#modes [data-mode=browse]').setAttribute('aria-checked', 'true');
// For tests: the picture is there, and this long after the page began to load.
requestAnimationFrame(() => {
  document.body.dataset.ready = Math.round(performance.now());
});
window.weftGraph = app;
