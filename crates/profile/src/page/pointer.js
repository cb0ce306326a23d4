// The pointer on the timeline: wheel, drags, clicks and the tip.

class Pointer {
  constructor(view, canvas, tip) {
    Object.assign(this, { view, canvas, tip, timeline: view.timeline, drag: null });
    const on = (type, act, options) => canvas.addEventListener(type, act.bind(this), options);
    on('wheel', this.wheel, { passive: false });
    on('pointerdown', this.down);
    on('pointermove', this.move);
    on('pointerup', this.up);
    on('pointerleave', () => { tip.hidden = true; });
  }

  wheel(event) {
    const { canvas, timeline } = this;
    // Above the names, the wheel scrolls the rows.
    if (event.offsetX < timeline.left) return;
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      timeline.move(event.deltaX / canvas.clientWidth);
    } else {
      timeline.zoom(Math.exp(event.deltaY / 400), event.offsetX);
    }
  }

  // A drag moves the timeline; along the times, or with Shift, it selects a range.
  down(event) {
    const { from, to } = this.timeline;
    const selects = event.shiftKey || event.offsetY < AXIS;
    this.drag = { x: event.offsetX, from, to, moved: false, selects };
    this.canvas.setPointerCapture?.(event.pointerId);
    this.tip.hidden = true;
  }

  move(event) {
    const { drag, timeline } = this;
    if (!drag) {
      this.canvas.style.cursor = event.offsetY < AXIS ? 'col-resize' : '';
      return this.showTip(event);
    }
    drag.moved ||= Math.abs(event.offsetX - drag.x) > 3;
    if (!drag.moved) return undefined;
    if (drag.selects) {
      const ends = [timeline.time(drag.x), timeline.time(event.offsetX)].sort((a, b) => a - b);
      const { from, span } = timeline.profile;
      this.view.range = ends.map((time) => Math.min(Math.max(time, from), from + span));
      const text = formatTime(this.view.range[1] - this.view.range[0]);
      placeTip(this.tip, text, [event.offsetX, event.offsetY], this.canvas.parentElement);
      return timeline.draw();
    }
    const by = (event.offsetX - drag.x) * timeline.scale;
    return timeline.setRange(drag.from - by, drag.to - by);
  }

  up(event) {
    const { drag, timeline, view } = this;
    this.drag = null;
    this.tip.hidden = true;
    if (drag?.moved && drag.selects) view.selectRange(view.range);
    if (!drag || drag.moved) return;
    const { instruction, arena, time } = timeline.hit(event.offsetX, event.offsetY);
    if (instruction >= 0) view.select(instruction);
    else if (arena >= 0) view.showMemory(arena, time);
    else view.unselect();
  }

  showTip({ offsetX: x, offsetY: y }) {
    const { instruction: k, arena, time } = this.timeline.hit(x, y);
    const { profile } = this.view;
    let text = '';
    if (k >= 0) {
      const takes = formatTime(profile.end[k] - profile.start[k]);
      text = [
        `${profile.nameOf(k)}, ${takes}`, profile.streamOf(k), shortPlace(profile.placeOf(k)),
      ].filter(Boolean).join('\n');
    } else if (arena >= 0) {
      const { at, bytes } = profile.levels[arena];
      const level = levelAt(at, time);
      text = `${formatBytes(level < 0 ? 0 : bytes[level])} after ${formatTime(time)}`;
    }
    placeTip(this.tip, text, [x, y], this.canvas.parentElement);
  }
}
