// Runs the script of a page of speech in a document of stubs, makes what is listed happen to the first sentence, and prints
// what is told after each: the time of the sound in seconds, the line below the picture, and the marked symbol.
import { readFileSync } from "node:fs";
const text = readFileSync(process.argv[2], "utf8"), events = JSON.parse(process.argv[3]), isDark = process.argv[4] === "dark";
const scripts = [...text.matchAll(/<script[^>]*>([\s\S]*?)<\/script>/g)].map(found => found[1]);
const made = [], painted = [];
function pen() {
  const noted = { measureText: label => ({ width: 7 * [...label].length }),
    createImageData: (w, h) => ({ data: new Uint8ClampedArray(4 * w * h) }), putImageData(image) { painted.push([...image.data]); } };
  return new Proxy(noted, { get: (one, name) => name in one ? one[name] : () => {}, set: (one, name, value) => (one[name] = value, true) });
}
function element(tag) {
  const ink = pen(), classes = new Set(), one = { tag, style: {}, children: [], clientWidth: 600, currentTime: 0, paused: true, offsetTop: 0,
    offsetHeight: 20, scrollTop: 0, clientHeight: 100, classes, setAttribute() {}, removeAttribute() {},
    classList: { toggle: (name, on) => on ? classes.add(name) : classes.delete(name), add: name => classes.add(name), remove: name => classes.delete(name) },
    append(...more) { one.children.push(...more); }, getContext: () => ink, getBoundingClientRect: () => ({ left: 0, top: 0 }),
    play() { one.paused = false; one.onplay(); }, pause() { one.paused = true; one.onpause(); } };
  made.push(one);
  return one;
}
const found = {}, by = id => found[id] ??= element("found");
by("data").textContent = scripts[0];
Object.assign(globalThis, { self: globalThis, devicePixelRatio: 1, requestAnimationFrame() {}, addEventListener() {},
  document: { getElementById: by, createElement: element, documentElement: {} }, matchMedia: () => ({ matches: isDark }),
  getComputedStyle: () => ({ getPropertyValue: name => name }) });
(0, eval)(scripts[1]);
const all = tag => made.filter(one => one.tag === tag);
const chips = all("button"), audio = all("audio")[0], map = all("canvas").find(one => one.onkeydown), reading = all("output")[0];
const told = () => ({ time: audio.currentTime, text: reading.textContent, here: chips.findIndex(chip => chip.classes.has("here")),
  unread: chips.flatMap((chip, s) => chip.classes.has("unread") ? [s] : []), paused: audio.paused });
const log = [told()];
for (const [kind, value] of events) {
  if (kind === "symbol") chips[value].onclick();
  if (kind === "key") map.onkeydown({ key: value, preventDefault() {} });
  if (kind === "point") map.onpointerdown({ clientX: value[0], clientY: value[1] });
  if (kind === "plays") { audio.currentTime = value; audio.paused = false; audio.onplay(); }
  log.push(told());
}
console.log(JSON.stringify({ log, colours: painted.map(data => data.slice(0, 3)), chips: chips.map(chip => chip.textContent) }));
