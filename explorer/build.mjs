// Bundles the page into one file, src/regard/serve/page/index.html, with its style and script inside.
// The first line of the file has the digest of the sources, which tests/test_explorer.py compares.
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const target = join(here, "../src/regard/serve/page/index.html");

function sources(folder) {
  return readdirSync(join(here, folder), { withFileTypes: true }).flatMap(entry =>
    entry.isDirectory() ? sources(`${folder}/${entry.name}`) : [`${folder}/${entry.name}`]);
}

const digest = createHash("sha256");
for (const name of ["build.mjs", "package-lock.json", "package.json", "tsconfig.json", ...sources("src")].sort()) {
  const content = readFileSync(join(here, name));
  digest.update(`${name}\n${content.length}\n`).update(content);
}

const common = { bundle: true, minify: true, write: false, legalComments: "none", target: ["chrome110", "firefox113", "safari16.4"] };
const made = await build({ ...common, entryPoints: [join(here, "src/main.tsx")], format: "iife", charset: "utf8",
  jsx: "automatic", jsxImportSource: "preact" });
const styled = await build({ ...common, entryPoints: [join(here, "src/style.css")] });
const script = made.outputFiles[0].text.trim().replaceAll("</script", "<\\/script");
const style = styled.outputFiles[0].text.trim();
const hash = text => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

const policy = ["default-src 'none'", `script-src ${hash(script)}`, `style-src ${hash(style)}`, "img-src data: blob:",
  "media-src data: blob:", "connect-src 'self'", "base-uri 'none'", "form-action 'none'"].join("; ");
const page = `<!DOCTYPE html><!-- sources ${digest.digest("hex")} -->
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<title>regard</title>
<link rel="icon" href="data:,">
<style>${style}</style>
</head>
<body>
<div id="page"></div>
<noscript>This page draws its figures with the script it contains; please allow scripts.</noscript>
<script>${script}</script>
</body>
</html>
`;
mkdirSync(dirname(target), { recursive: true });
writeFileSync(target, page);
console.log(`${target}: ${(Buffer.byteLength(page) / 1000).toFixed(1)} kB`);
