import type { ViewProps } from "../parts";
export function LanguageView(_: ViewProps) { return null; }
