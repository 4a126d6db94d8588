// Draws instances of SchemaStore's schemas by json-schema-faker, for store.py: node store.mjs FOLDER, whose *.json are schemas. A line each:
// {"name", "instances"}. A schema that takes longer than three seconds has those that were drawn.
import fs from 'node:fs'
import path from 'node:path'
import { Worker, isMainThread, parentPort, workerData } from 'node:worker_threads'

const draws = 6

if (!isMainThread) {
  const { JSONSchemaFaker: faker } = await import('json-schema-faker').then(m => m.default?.JSONSchemaFaker ? m.default : { JSONSchemaFaker: m.JSONSchemaFaker ?? m.default })
  let state = 7
  const random = () => (state = (state * 1103515245 + 12345) % 2147483648) / 2147483648
  faker.option({ random, failOnInvalidTypes: false, failOnInvalidFormat: false, refDepthMax: 3, maxItems: 3, maxLength: 24, optionalsProbability: 0.4, useDefaultValue: false, validateSchemaVersion: false })
  const schema = JSON.parse(fs.readFileSync(workerData, 'utf8'))
  for (let i = 0; i < draws; i++) {
    try {
      parentPort.postMessage(JSON.stringify(faker.generate(structuredClone(schema))))
    } catch {}
  }
} else {
  const folder = process.argv[2]
  for (const file of fs.readdirSync(folder).sort()) {
    if (!file.endsWith('.json')) continue
    const instances = []
    await new Promise(done => {
      const worker = new Worker(new URL(import.meta.url), { workerData: path.join(folder, file) })
      const clock = setTimeout(() => worker.terminate().then(done), 3000)
      worker.on('message', text => text !== undefined && text.length < 20000 && instances.push(text))
      worker.on('error', () => {})
      worker.on('exit', () => { clearTimeout(clock); done() })
    })
    console.log(JSON.stringify({ name: file, instances }))
  }
}
