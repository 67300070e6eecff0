// Takes the files of others from their packages: `node take.mjs MODULES`, where MODULES is a folder
// that `npm ci` has filled from tests/console/tools. With `--check` it writes nothing, and ends with 1
// when a file here is not what it would write. Nothing is changed in them but the names by which one
// imports the other, as browsers know no packages, and the lines that name maps for debuggers.
import fs from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const [modules, check] = process.argv.slice(2)
const here = path.dirname(fileURLToPath(import.meta.url))
const files = {
  'preact.js': 'preact/dist/preact.mjs',
  'preact-hooks.js': 'preact/hooks/dist/hooks.mjs',
  'htm.js': 'htm/dist/htm.module.js',
  'signals-core.js': '@preact/signals-core/dist/signals-core.mjs',
  'signals.js': '@preact/signals/dist/signals.mjs',
  'uplot.js': 'uplot/dist/uPlot.esm.js',
  'uplot.css': 'uplot/dist/uPlot.min.css',
}
const names = {
  preact: './preact.js',
  'preact/hooks': './preact-hooks.js',
  '@preact/signals-core': './signals-core.js',
}

let differs = false
for (const [name, from] of Object.entries(files)) {
  const published = fs.readFileSync(path.join(modules, 'node_modules', from), 'utf8')
  const taken = published
    .replace(/(\bfrom\s*)"([^"]+)"/g, (all, from, name) => (names[name] ? `${from}"${names[name]}"` : all))
    .replace(/\n?\/\/# sourceMappingURL=.*\n?$/, '\n')
  const to = path.join(here, name)
  if (check !== '--check') fs.writeFileSync(to, taken)
  else if (fs.readFileSync(to, 'utf8') !== taken) {
    console.error(`console/vendor/${name} is not ${from}`)
    differs = true
  }
}
process.exit(differs ? 1 : 0)
