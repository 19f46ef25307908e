// What the server answers, and the requests of the page.

export interface Facts {
  name: string;
  task?: string;
  version?: string;
  loaded: boolean;
  card?: string;
  parameters?: number;
  /** The validations of the training: step, epoch, seconds and metrics. */
  validations?: Record<string, number>[];
  input?: { schema: unknown; columns: (string | number)[] };
  can?: { stream: boolean; align: boolean; score: boolean; sound: boolean; pace?: boolean; confidence: boolean; constraints: boolean; tree?: boolean; nearest?: boolean };
  decoding?: Record<string, unknown>;
  [key: string]: unknown;
}

export type Matrix = number[][];

/** An alignment as `regard plot --data json` writes it; `alignments` has every head of every layer. */
export interface View {
  alignment: Matrix;
  source_tokens: string[];
  tokens: string[];
  alignments: Record<string, Matrix[]>;
  /** Of continuations, how many columns and rows belong to the given text. */
  prompt?: [number, number] | null;
}

export interface Output {
  text: string;
  tokens: string[];
  score: number;
  log_probability: number;
  stop_reason: string;
  confidence?: number | null;
  source_tokens?: string[];
  alignment?: Matrix;
  warnings?: string[];
  alternatives?: Output[];
  /** What the page draws beyond the record: alignments of this output and of each alternative by unit, and a picture. */
  details?: { views?: Views[]; picture?: Picture };
}

/** The alignments of an output by unit, `symbols` and perhaps `words`. */
export type Views = Record<string, View>;

export interface Picture { image: string; width: number; height: number; grid: [number, number]; cell: number; shift: number }

/** An output with its alignments. */
export interface Seen { output: Output; views: Views }

/** The outputs of a prediction, best first. */
export function seenOf(prediction: Output | undefined): Seen[] {
  return prediction ? [prediction, ...prediction.alternatives ?? []].map(({ alternatives: _, details: __, ...output }, i) => ({ output, views: prediction.details?.views?.[i] ?? plainViews(output) })) : [];
}

function plainViews({ alignment, tokens, source_tokens = [] }: Output): Views {
  return alignment?.length ? { symbols: { alignment, tokens, source_tokens, alignments: {} } } : {};
}

export interface TreeNode {
  id: number;
  parent: number | null;
  step: number;
  token: number | null;
  text: string;
  is_end: boolean;
  log_probability: number | null;
  total: number | null;
  score: number | null;
  state: "kept" | "pruned" | "ended" | "returned";
  why: string;
  group: number;
}

export interface Tree { nodes: TreeNode[]; steps: number; returned: number[] }

export interface Near { distance: number; place: string; input: string; tokens: string[]; step: number }

export interface Constraints { prefix?: string | string[]; include?: string[]; exclude?: string[] }

export class Refused extends Error {
  constructor(public status: number, message: string, public field: string | null = null) { super(message); }
}

const KEY = "regard token";
export const token = {
  get: () => { try { return sessionStorage.getItem(KEY) ?? ""; } catch { return ""; } },
  set: (value: string) => { try { sessionStorage.setItem(KEY, value); } catch { /* a page without storage asks again */ } },
};

async function request(path: string, body: unknown, signal?: AbortSignal): Promise<Response> {
  const headers: Record<string, string> = {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (token.get()) headers["Authorization"] = `Bearer ${token.get()}`;
  let answer: Response;
  try {
    answer = await fetch(path, { method: body === undefined ? "GET" : "POST", headers, body: body === undefined ? undefined : JSON.stringify(body), signal });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Refused(0, "The server does not answer. Is it still running?");
  }
  if (answer.ok) return answer;
  const text = await answer.text();
  let message = text.slice(0, 300) || answer.statusText, field: string | null = null;
  try { ({ message, field } = JSON.parse(text).error); } catch { /* not the server's own error */ }
  throw new Refused(answer.status, message, field);
}

export async function call<T>(path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  return (await request(path, body, signal)).json();
}

/** A prediction whose text is told piece by piece, as far as it has come. */
export async function streamed<T>(path: string, body: unknown, signal: AbortSignal, tell: (text: string) => void): Promise<T> {
  const reader = (await request(path, body, signal)).body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "", text = "", whole: T | null = null;
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const events = (rest + part.value).split("\n\n");
    rest = events.pop()!;
    for (const [, name, data] of events.map(event => /^event: (\w+)\ndata: (.*)$/s.exec(event)!)) {
      const told = JSON.parse(data);
      if (name === "token") tell(text += told.text);
      if (name === "prediction") whole = told.prediction;
      if (name === "error") throw new Refused(503, told.message, told.field);
    }
  }
  if (!whole) throw new Refused(0, "The server has ended the answer early; ask again.");
  return whole;
}
