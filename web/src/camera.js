// Zooming and panning: one transform on the picture. Works with mouse, wheel, touch and pen.

const LEAST = 0.05;
const MOST = 3;

export class Camera {
  constructor(stage, picture) {
    this.stage = stage;
    this.picture = picture;
    this.x = 0;
    this.y = 0;
    this.scale = 1;
    this.fingers = new Map();
    this.moved = false; // since the last press: then a click is the end of a drag
    this.#listen();
  }

  #apply(smooth = false) {
    this.picture.classList.toggle('smooth', smooth);
    this.picture.style.transform = `translate(${this.x}px, ${this.y}px) scale(${this.scale})`;
  }

  #listen() {
    const { stage } = this;
    stage.addEventListener(
      'wheel',
      (event) => {
        event.preventDefault();
        if (event.ctrlKey || event.metaKey || !event.shiftKey) {
          const step = event.deltaMode === 1 ? event.deltaY * 20 : event.deltaY;
          this.zoom(Math.exp(-step / 400), event.offsetX, event.offsetY);
        } else this.pan(-event.deltaY - event.deltaX, 0);
      },
      { passive: false },
    );
    stage.addEventListener('pointerdown', (event) => {
      if (event.button !== 0) return;
      if (!this.fingers.size) this.moved = false;
      this.fingers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    });
    stage.addEventListener('pointermove', (event) => this.#drag(event));
    for (const end of ['pointerup', 'pointercancel', 'pointerleave']) {
      stage.addEventListener(end, (event) => this.fingers.delete(event.pointerId));
    }
  }

  #drag(event) {
    const before = this.fingers.get(event.pointerId);
    if (!before) return;
    const now = { x: event.clientX, y: event.clientY };
    if (!this.moved && Math.hypot(now.x - before.x, now.y - before.y) < 4) return;
    if (!this.moved) this.stage.setPointerCapture(event.pointerId);
    this.moved = true;
    if (this.fingers.size === 2) {
      const [other] = [...this.fingers.entries()]
        .filter(([id]) => id !== event.pointerId)
        .map(([, at]) => at);
      const spread = (at) => Math.hypot(at.x - other.x, at.y - other.y) || 1;
      const bounds = this.stage.getBoundingClientRect();
      const middle = [(now.x + other.x) / 2 - bounds.left, (now.y + other.y) / 2 - bounds.top];
      this.zoom(spread(now) / spread(before), ...middle);
    } else this.pan(now.x - before.x, now.y - before.y);
    this.fingers.set(event.pointerId, now);
  }

  pan(dx, dy) {
    this.x += dx;
    this.y += dy;
    this.#apply();
  }

  /** Zooms by a factor around a point of the stage, its middle if none is given. */
  zoom(factor, x = this.stage.clientWidth / 2, y = this.stage.clientHeight / 2, smooth = false) {
    const scale = Math.min(MOST, Math.max(LEAST, this.scale * factor));
    this.x = x - ((x - this.x) * scale) / this.scale;
    this.y = y - ((y - this.y) * scale) / this.scale;
    this.scale = scale;
    this.#apply(smooth);
  }

  /** Shows a whole picture of this size; a long one from its top, so that it stays legible. */
  fit(width, height, { whole = false, smooth = false } = {}) {
    const { clientWidth, clientHeight } = this.stage;
    const margin = 24;
    const across = (clientWidth - 2 * margin) / width;
    const down = (clientHeight - 2 * margin) / height;
    const least = whole ? LEAST : 0.85;
    this.scale = Math.max(least, Math.min(across, down, 1.1));
    this.x = (clientWidth - width * this.scale) / 2;
    const tall = height * this.scale > clientHeight - 2 * margin;
    this.y = tall && !whole ? margin : (clientHeight - height * this.scale) / 2;
    this.#apply(smooth);
  }

  /** Brings a box into the middle, unless it is in view already. */
  show(box, { always = false } = {}) {
    const { clientWidth, clientHeight } = this.stage;
    const left = box.x * this.scale + this.x;
    const top = box.y * this.scale + this.y;
    const [right, bottom] = [left + box.width * this.scale, top + box.height * this.scale];
    const margin = 40;
    const inside =
      left > margin &&
      top > margin &&
      right < clientWidth - margin &&
      bottom < clientHeight - margin;
    if (inside && !always && this.scale > 0.5) return;
    this.scale = Math.max(this.scale, 0.8);
    this.x = clientWidth / 2 - (box.x + box.width / 2) * this.scale;
    this.y = clientHeight / 2 - (box.y + Math.min(box.height, clientHeight) / 2) * this.scale;
    this.#apply(true);
  }

  /** Keeps a box where it is on the screen while the layout around it changes. */
  hold(before, after) {
    this.x += (before.x - after.x) * this.scale;
    this.y += (before.y - after.y) * this.scale;
    this.#apply();
  }
}
