// What every file of these tests begins with: the addresses of the platform that SLICEWISE_STATE names, and a browser.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { chromium } from 'playwright-core'

export const root = resolve(import.meta.dirname, '..', '..')
export const wait = { timeout: 60_000 }
const program = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(existsSync)

// name of a service -> its address; what it prints counts: its exit status also tells of what no page needs
export function platform () {
  let out
  try {
    out = execFileSync(join(root, '.venvs/platform/bin/slicewise'), ['status', '--json'], { encoding: 'utf8' })
  } catch (error) {
    if (!error.stdout) throw error
    out = error.stdout
  }
  const parsed = JSON.parse(out)
  const services = Array.isArray(parsed) ? parsed : parsed.services
  // a finding about a service has its name too, and no address
  return Object.fromEntries(services.filter(each => each.kind === 'service').map(each => [each.name, each.address]))
}

// a page of a browser of its own, and what ends it
export async function opened (viewport = { width: 1280, height: 800 }) {
  assert.ok(program, 'no browser: apt-get install chromium')
  const profile = mkdtempSync(join(tmpdir(), 'slicewise-ui-'))
  const browser = await chromium.launchPersistentContext(profile, {
    executablePath: program,
    viewport,
    args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
      '--disable-background-networking', '--disable-component-update', '--disable-sync']
  })
  const close = async () => { await browser.close(); rmSync(profile, { recursive: true, force: true }) }
  return { page: await browser.newPage(), close }
}

// signs in to Airflow, where that is not asked of anybody; its address
export async function signedIn (page) {
  const { airflow } = platform()
  await page.goto(`${airflow}/plugin/slicewise`, wait)
  await page.frameLocator('iframe').locator('#views').getByText('carrier').first().waitFor(wait)
  return airflow
}

// opens a page at this width in this colour scheme, and looks at it once `opens` has opened what is closed: it has no
// errors, is no wider than the window, and has ink that can be read on its ground; the ground's brightness
export async function readable (page, address, width, colorScheme, opens) {
  const errors = []
  const note = message => { if (message.type() === 'error') errors.push(message.text()) }
  page.on('console', note)
  await page.setViewportSize({ width, height: 900 })
  await page.emulateMedia({ colorScheme })
  await page.goto(address, wait)
  await opens()
  const seen = await page.evaluate(() => {
    window.light = text => text.match(/[\d.]+/g).slice(0, 3).map(Number).reduce((sum, part) => sum + part, 0) / 3
    const body = getComputedStyle(document.body)
    return {
      over: document.documentElement.scrollWidth - document.documentElement.clientWidth,
      ink: window.light(body.color),
      back: window.light(body.backgroundColor)
    }
  })
  page.off('console', note)
  assert.deepEqual(errors, [])
  assert.equal(seen.over, 0, 'the page is wider than the window')
  assert.ok(colorScheme === 'dark' ? seen.ink - seen.back > 120 : seen.back - seen.ink > 120, JSON.stringify(seen))
  return seen.back
}

// the form of a DAG, and what triggers it
export async function form (page, airflow, dag) {
  await page.goto(`${airflow}/dags/${dag}`, wait)
  await page.getByRole('button', { name: /trigger/i }).first().click(wait)
  const dialog = page.getByRole('dialog').filter({ hasText: dag })
  const trigger = dialog.getByRole('button', { name: 'Trigger', exact: true })
  await trigger.waitFor(wait)
  return { dialog, trigger }
}

// runs of a DAG, the newest first; the page is signed in
export async function runs (page, airflow, dag) {
  const answer = await page.request.get(`${airflow}/api/v2/dags/${dag}/dagRuns?order_by=-id`)
  assert.ok(answer.ok(), `${answer.status()}`)
  return (await answer.json()).dag_runs
}

// triggers by its form a DAG that does its work within two minutes, or as long as it says itself
export async function triggered (page, airflow, dag, trigger, within = 120_000) {
  const before = (await runs(page, airflow, dag)).length
  await trigger.click(wait)
  const deadline = Date.now() + within
  let now = []
  while (now.length <= before || now[0].state !== 'success') {
    assert.ok(Date.now() < deadline && now[0]?.state !== 'failed', `runs of ${dag}: ${now.map(run => run.state)}`)
    await page.waitForTimeout(500)
    now = await runs(page, airflow, dag)
  }
}
