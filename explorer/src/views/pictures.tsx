import type { ViewProps } from "../parts";
export function PicturesView(_: ViewProps) { return null; }
