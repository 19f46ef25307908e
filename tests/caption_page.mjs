// Runs the script of a page of captions in a document of stubs, whose images are white, makes what is listed happen to the
// first caption, and prints after each which words are lit or marked, the line below, and the colours of the image.
import { readFileSync } from "node:fs";
const text = readFileSync(process.argv[2], "utf8"), events = JSON.parse(process.argv[3]);
const scripts = [...text.matchAll(/<script[^>]*>([\s\S]*?)<\/script>/g)].map(found => found[1]);
const made = [];
function element(tag) {
  const classes = new Set(), one = { tag, style: {}, children: [], clientWidth: 400, width: 0, height: 0, attributes: {}, classes, value: "", boxes: [],
    classList: { toggle: (name, on) => on ? classes.add(name) : classes.delete(name) }, setAttribute(name, value) { one.attributes[name] = value; },
    append(...more) { one.children.push(...more); }, focus() { one.onfocus(); },
    getBoundingClientRect: () => ({ left: 0, top: 0, width: one.width, height: one.height }) };
  const ink = { drawImage() {}, createImageData: (w, h) => ({ data: new Uint8ClampedArray(4 * w * h) }), strokeRect(...box) { one.boxes.push(box); },
    getImageData: (x, y, w, h) => ({ data: new Uint8ClampedArray(4 * w * h).fill(255) }), putImageData(image) { one.painted = image.data; one.boxes = []; } };
  one.getContext = () => ink;
  made.push(one);
  return one;
}
const found = {}, by = id => found[id] ??= element("found"), images = [];
by("data").textContent = scripts[0];
by("scale").children = [element("option"), element("option")];
Object.assign(globalThis, { self: globalThis, devicePixelRatio: 1, innerHeight: 300, addEventListener() {},
  Image: class { constructor() { this.naturalWidth = 8; this.naturalHeight = 8; images.push(this); } },
  document: { getElementById: by, createElement: element }, getComputedStyle: () => ({ direction: "ltr" }) });
(0, eval)(scripts[1]);
images.forEach(image => image.onload());
const sections = made.filter(one => one.tag === "section");
const inside = (node, tag) => node.children.flatMap(child => [...child.tag === tag ? [child] : [], ...inside(child, tag)]);
const chips = inside(sections[0], "button"), map = inside(sections[0], "canvas")[0], reading = inside(sections[0], "output")[0];
const list = inside(sections[0], "div").find(one => one.onkeydown);
const numbers = name => chips.flatMap((chip, t) => chip.classes.has(name) ? [t] : []);
const told = () => ({ here: numbers("here"), lit: numbers("lit"), text: reading.textContent, size: [map.height, map.width], boxes: map.boxes,
  pressed: chips.flatMap((chip, t) => chip.attributes["aria-pressed"] === "true" ? [t] : []), painted: process.argv[4] ? [...map.painted] : null });
const log = [told()];
for (const [kind, value] of events) {
  const mouse = { pointerType: "mouse" }, key = { key: value, preventDefault() {} }, at = { ...mouse, clientX: value?.[0], clientY: value?.[1] };
  if (kind === "over") chips[value].onpointerenter(mouse);
  if (kind === "out") chips[value].onpointerleave(mouse);
  if (kind === "click") chips[value].onclick();
  if (kind === "focus") chips[value].onfocus();
  if (kind === "list") list.onkeydown(key);
  if (kind === "point") map.onpointermove(at);
  if (kind === "leave") map.onpointerleave(mouse);
  if (kind === "tap") map.onclick({ ...at, pointerType: "touch" });
  if (kind === "key") map.onkeydown(key);
  if (kind === "smooth") { by("smooth").checked = value; by("smooth").onchange(); }
  if (kind === "scale") { by("scale").value = value; by("scale").onchange(); }
  log.push(told());
}
console.log(JSON.stringify({ log, chips: chips.map(chip => chip.textContent), captions: sections.length, legend: by("highest").textContent }));
