// The colours of weights, those of regard.viz.colours: equal steps of weight are equal steps of colour in OKLab.
import { useEffect, useState } from "preact/hooks";

type Rgb = [number, number, number];
const COOL = [215, 275], WARM = [85, 5], CHROMA = 0.13, LIGHT = [1, 0.24], DARK = [0.225, 0.96];

function srgb(lightness: number, a: number, b: number): Rgb {
  const cones = [[0.3963377774, 0.2158037573], [-0.1055613458, -0.0638541728], [-0.0894841775, -1.291485548]]
    .map(([x, y]) => (lightness + x * a + y * b) ** 3);
  const linear = [[4.0767416621, -3.3077115913, 0.2309699292], [-1.2684380046, 2.6097574011, -0.3413193965],
    [-0.0041960863, -0.7034186147, 1.707614701]].map(row => Math.min(1, Math.max(0, row.reduce((sum, x, i) => sum + x * cones[i], 0))));
  return linear.map(x => Math.round(255 * (x <= 0.0031308 ? 12.92 * x : 1.055 * x ** (1 / 2.4) - 0.055))) as Rgb;
}

function ramp(dark: boolean, hues: number[]): Rgb[] {
  const [start, end] = dark ? DARK : LIGHT;
  const path = Array.from({ length: 1024 }, (_, i) => {
    const u = i / 1023, hue = (hues[0] + (hues[1] - hues[0]) * (dark ? 1 - u : u)) * Math.PI / 180, chroma = CHROMA * Math.sin(Math.PI * u) ** 0.8;
    return [start + (end - start) * u, chroma * Math.cos(hue), chroma * Math.sin(hue)];
  });
  const lengths = [0];
  for (let i = 1; i < path.length; i++) lengths.push(lengths[i - 1] + Math.hypot(...path[i].map((x, k) => x - path[i - 1][k])));
  const whole = lengths[lengths.length - 1];
  let at = 0;
  return Array.from({ length: 256 }, (_, i) => {
    while (at < path.length - 1 && lengths[at] < whole * i / 255) at++;
    return srgb(path[at][0], path[at][1], path[at][2]);
  });
}

export interface Palette {
  dark: boolean;
  /** 256 colours of weights from 0 to the highest. */
  weights: Rgb[];
  /** 256 colours of a second kind of values. */
  levels: Rgb[];
  /** 256 colours from less through nothing to more. */
  signed: Rgb[];
}

const palettes = [false, true].map(dark => {
  const weights = ramp(dark, COOL), levels = ramp(dark, WARM);
  const signed = Array.from({ length: 256 }, (_, i) => (i < 128 ? levels : weights)[Math.max(0, Math.round((Math.abs(i - 127.5) - 3) * 1.6))]);
  return { dark, weights, levels, signed };
});
const night = matchMedia("(prefers-color-scheme: dark)");
const paper = matchMedia("print");

export function usePalette(): Palette {
  const now = () => palettes[+(night.matches && !paper.matches)];
  const [palette, set] = useState(now);
  useEffect(() => {
    const listener = () => set(now());
    for (const query of [night, paper]) query.addEventListener("change", listener);
    return () => { for (const query of [night, paper]) query.removeEventListener("change", listener); };
  }, []);
  return palette;
}

export const css = ([r, g, b]: Rgb) => `rgb(${r}, ${g}, ${b})`;

const clamp = (x: number) => Math.min(1, Math.max(0, x));
export const shade = (table: Rgb[], value: number): Rgb => Number.isFinite(value) ? table[Math.round(255 * clamp(value))] : [190, 90, 90];

/** The style of text on a weight from 0 to 1: the first two thirds of the colours, with ink that is readable on them. */
export function behind(table: Rgb[], value: number): { background: string; color: string } {
  const colour = shade(table, 0.66 * clamp(value));
  const [r, g, b] = colour.map(x => x / 255 <= 0.04045 ? x / 255 / 12.92 : ((x / 255 + 0.055) / 1.055) ** 2.4);
  return { background: css(colour), color: 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000" : "#fff" };
}

/** A matrix as the URL of a picture with a pixel for each weight. */
export function painted(matrix: number[][], colour: (value: number) => Rgb): string {
  const rows = matrix.length, columns = matrix[0]?.length ?? 0;
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, columns); canvas.height = Math.max(1, rows);
  if (!rows || !columns) return canvas.toDataURL();
  const pen = canvas.getContext("2d")!, image = pen.createImageData(columns, rows);
  matrix.forEach((row, t) => row.forEach((value, s) => image.data.set([...colour(value), 255], 4 * (t * columns + s))));
  pen.putImageData(image, 0, 0);
  return canvas.toDataURL();
}
