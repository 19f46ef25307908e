import type { ViewProps } from "../parts";
export function SeriesView(_: ViewProps) { return null; }
