// The state of the page is its link: the model's name and the values of the view, after the sign #.
import { useEffect, useState } from "preact/hooks";

export interface Link { model: string; values: Record<string, string> }

function read(): Link {
  const [model = "", query = ""] = location.hash.slice(1).split(/\?(.*)/s);
  return { model: decodeURIComponent(model), values: Object.fromEntries(new URLSearchParams(query)) };
}

let link = read();
const listeners = new Set<() => void>();
const tell = () => listeners.forEach(listener => listener());
addEventListener("hashchange", () => { link = read(); tell(); });

export function hashOf({ model, values }: Link): string {
  const query = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== "")).toString();
  return "#" + encodeURIComponent(model) + (query ? "?" + query : "");
}

/** Goes to a link; `keep` makes an entry that the browser's button goes back to. */
export function go(next: Link, keep = false) {
  const hash = hashOf(next);
  if (hash === location.hash) return;
  link = next;
  history[keep ? "pushState" : "replaceState"](null, "", hash);
  tell();
}

export function change(values: Record<string, string>, keep = false) {
  go({ model: link.model, values: { ...link.values, ...values } }, keep);
}

export function useLink(): Link {
  const [, again] = useState(0);
  useEffect(() => {
    const listener = () => again(count => count + 1);
    listeners.add(listener);
    return () => { listeners.delete(listener); };
  }, []);
  return link;
}

/** A value of the link with its setter. */
export function useValue(name: string, fallback = ""): [string, (value: string, keep?: boolean) => void] {
  const value = useLink().values[name] ?? fallback;
  return [value, (next, keep = false) => change({ [name]: next === fallback ? "" : next }, keep)];
}

/** Text in fewer characters, for links; null without the browser's compression. */
export async function packed(text: string): Promise<string> {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

export async function unpacked(text: string): Promise<string> {
  const bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), sign => sign.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"))).text();
}
