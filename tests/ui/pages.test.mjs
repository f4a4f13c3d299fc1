// The pages that people look at, in a real browser, on a running platform: Airflow's, and the prediction API's.
//
// Addresses come from `slicewise status --json` of the platform that SLICEWISE_STATE names. With PICTURES=1 the pages
// are also kept as docs/pictures/*.png, for the README.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { after, before, test } from 'node:test'
import { chromium } from 'playwright-core'

const root = resolve(import.meta.dirname, '..', '..')
const program = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(existsSync)
const wait = { timeout: 60_000 }
let addresses, profile, browser, page

// what it prints counts: its exit status also tells of what no page needs
function platform () {
  let out
  try {
    out = execFileSync(join(root, '.venvs/platform/bin/slicewise'), ['status', '--json'], { encoding: 'utf8' })
  } catch (error) {
    if (!error.stdout) throw error
    out = error.stdout
  }
  const parsed = JSON.parse(out)
  const services = Array.isArray(parsed) ? parsed : parsed.services
  return Object.fromEntries(services.map(each => [each.name, each.address]))
}

async function keep (name) {
  if (process.env.PICTURES) await page.screenshot({ path: join(root, 'docs', 'pictures', `${name}.png`) })
}

before(async () => {
  assert.ok(program, 'no browser: apt-get install chromium')
  addresses = platform()
  profile = mkdtempSync(join(tmpdir(), 'slicewise-ui-'))
  browser = await chromium.launchPersistentContext(profile, {
    executablePath: program,
    viewport: { width: 1280, height: 800 },
    args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
      '--disable-background-networking', '--disable-component-update', '--disable-sync']
  })
  page = await browser.newPage()
})

after(async () => {
  await browser?.close()
  if (profile) rmSync(profile, { recursive: true, force: true })
})

test('the API lists views and features, with an example to copy', async () => {
  await page.goto(addresses.serving, wait)
  const text = await page.locator('body').innerText()
  for (const word of ['carrier', 'new_york', 'delay_risk', 'curl']) assert.ok(text.includes(word), `${word}: ${text.slice(0, 300)}`)
  await keep('serving')
})

test('the page in Airflow shows the stream, the views and the last check', async () => {
  await page.goto(`${addresses.airflow}/plugin/slicewise`, wait)
  const frame = page.frameLocator('iframe')
  await frame.getByText('carrier').first().waitFor(wait)
  const text = await frame.locator('body').innerText()
  for (const word of ['flights', 'new_york', 'check']) assert.ok(text.includes(word), `${word}: ${text.slice(0, 500)}`)
  // a picture shows the page, not the machine that it was taken on
  await frame.locator('body').evaluate((body, folder) => { body.innerHTML = body.innerHTML.replaceAll(folder, '.') }, root)
  await keep('airflow-slicewise')
})

test('Airflow lists every DAG, and the page of compact_slices says what it does', async () => {
  await page.goto(`${addresses.airflow}/dags`, wait)
  await page.getByText('compact_slices').first().waitFor(wait)
  await keep('airflow-dags')
  await page.goto(`${addresses.airflow}/dags/compact_slices`, wait)
  await page.getByText('compact_slices').first().waitFor(wait)
  await keep('airflow-compact-slices')
})

async function form (dag) {
  await page.goto(`${addresses.airflow}/dags/${dag}`, wait)
  await page.getByRole('button', { name: /trigger/i }).first().click(wait)
  const dialog = page.getByRole('dialog')
  const trigger = dialog.getByRole('button', { name: 'Trigger', exact: true })
  await trigger.waitFor(wait)
  return { dialog, trigger }
}

test('the form of a training set refuses a run without what it needs', async () => {
  const { dialog, trigger } = await form('build_training_set')
  await dialog.getByText('This field is required').first().waitFor(wait)
  assert.equal(await dialog.getByText('This field is required').count(), 3)
  assert.ok(await trigger.isDisabled())
})

// not before pictures: they would show the freshness of a minute that had a restart
if (!process.env.PICTURES) {
  test('drivers are restarted by a form', async () => {
    const states = async () => {
      const answer = await page.request.get(`${addresses.airflow}/api/v2/dags/restart_stream/dagRuns?order_by=-id`)
      assert.ok(answer.ok(), `${answer.status()}`)
      return (await answer.json()).dag_runs.map(run => run.state)
    }
    const { dialog, trigger } = await form('restart_stream')
    assert.ok((await dialog.innerText()).includes('all drivers'))
    const before = (await states()).length
    await trigger.click(wait)
    const deadline = Date.now() + 120_000
    let now = []
    while (now.length <= before || now[0] !== 'success') {
      assert.ok(Date.now() < deadline && now[0] !== 'failed', `runs of restart_stream: ${now}`)
      await page.waitForTimeout(500)
      now = await states()
    }
  })
}
