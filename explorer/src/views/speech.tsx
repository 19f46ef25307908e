import type { ViewProps } from "../parts";
export function SpeechView(_: ViewProps) { return null; }
