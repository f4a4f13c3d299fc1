// The pages that people look at, in a real browser, on a running platform: Airflow's, and the prediction API's.
//
// Addresses come from `slicewise status --json` of the platform that SLICEWISE_STATE names. With PICTURES=1 the pages
// are also kept as docs/pictures/*.png, for the README.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { form, opened, platform, root, wait } from './browser.mjs'

let addresses, close, page

async function keep (name) {
  if (process.env.PICTURES) await page.screenshot({ path: join(root, 'docs', 'pictures', `${name}.png`) })
}

before(async () => {
  addresses = platform();
  ({ page, close } = await opened())
})

after(async () => close?.())

test('the API lists views and features, with an example to copy', async () => {
  await page.goto(addresses.serving, wait)
  const text = await page.locator('body').innerText()
  for (const word of ['carrier', 'new_york', 'delay_risk', 'curl']) assert.ok(text.includes(word), `${word}: ${text.slice(0, 300)}`)
  await keep('serving')
})

test('the page in Airflow shows the stream, the views and the last check', async () => {
  await page.goto(`${addresses.airflow}/plugin/slicewise`, wait)
  const frame = page.frameLocator('iframe')
  await frame.locator('#views').getByText('carrier').first().waitFor(wait)
  const text = await frame.locator('body').innerText()
  for (const word of ['flights', 'new_york', 'check']) assert.ok(text.includes(word), `${word}: ${text.slice(0, 500)}`)
  // a picture shows the page, not the machine that it was taken on
  await frame.locator('body').evaluate((body, folder) => { body.innerHTML = body.innerHTML.replaceAll(folder, '.') }, root)
  await keep('airflow-slicewise')
})

test('the page reads an entity and explains a value; its hours are reached by keyboard', async () => {
  await page.goto(`${addresses.airflow}/plugin/slicewise`, wait)
  const frame = page.frameLocator('iframe')
  await frame.locator('#what').selectOption('set:delay_risk', wait)
  for (const [column, value] of Object.entries({ carrier: 'UA', origin: 'EWR', dest: 'IAH' })) {
    await frame.locator(`#columns input[name=${column}]`).fill(value)
  }
  await frame.getByRole('button', { name: 'Read', exact: true }).click()
  await frame.getByRole('button', { name: 'explain carrier:flights_1h', exact: true }).click(wait)
  const why = await frame.locator('#why').innerText()
  for (const words of ['carrier:flights_1h = ', 'contained in the answer', 'committed by the stream', 'Token']) assert.ok(why.includes(words), why.slice(0, 500))
  // one stop of the tabulator in the calendar, and arrows from there
  const stop = frame.locator('#hours button[tabindex="0"]')
  await stop.waitFor(wait)
  await stop.focus()
  const from = await stop.getAttribute('data-hour')
  await page.keyboard.press('ArrowUp')
  const day = (await frame.locator(':focus').getAttribute('data-hour')).slice(0, 10)
  assert.equal(Date.parse(from.slice(0, 10)) - Date.parse(day), 86_400_000)
  assert.match(await frame.locator(':focus').getAttribute('aria-label'), /UTC, (no events|compacted|dirty|open|failed|being compacted)/)
  await page.keyboard.press('Enter')
  await frame.getByRole('button', { name: 'Compact this hour' }).waitFor(wait)
  // the way to Airflow's own page leads out of the frame
  await frame.getByRole('link', { name: 'compact_slices in Airflow' }).click(wait)
  await page.waitForURL(/\/dags\/compact_slices/, wait)
})

test('who may only view is shown no way to start a run', async () => {
  await page.route('**/slicewise/rights.json', route => route.fulfill({ json: { read: true, compact: false } }))
  await page.goto(`${addresses.airflow}/plugin/slicewise`, wait)
  const frame = page.frameLocator('iframe')
  await frame.locator('#hours button[tabindex="0"]').click(wait)
  await frame.getByText('Airflow gives you no right to start a run').waitFor(wait)
  assert.equal(await frame.getByRole('button', { name: 'Compact this hour' }).count(), 0)
  await page.unroute('**/slicewise/rights.json')
})

test('Airflow lists every DAG, and the page of compact_slices says what it does', async () => {
  await page.goto(`${addresses.airflow}/dags`, wait)
  await page.getByText('compact_slices').first().waitFor(wait)
  await keep('airflow-dags')
  await page.goto(`${addresses.airflow}/dags/compact_slices`, wait)
  await page.getByText('compact_slices').first().waitFor(wait)
  await keep('airflow-compact-slices')
})

test('the form of a training set refuses a run without what it needs', async () => {
  const { dialog, trigger } = await form(page, addresses.airflow, 'build_training_set')
  await dialog.getByText('This field is required').first().waitFor(wait)
  assert.equal(await dialog.getByText('This field is required').count(), 3)
  assert.ok(await trigger.isDisabled())
})

test('the form of a drain refuses no time, and takes none beyond its bounds', async () => {
  const { dialog, trigger } = await form(page, addresses.airflow, 'drain_stream')
  const time = dialog.locator('input[name=element_wait_s]')
  await time.waitFor(wait)
  assert.equal(await time.inputValue(), '300')
  for (const [value, taken] of [['0', '1'], ['3601', '3600']]) {
    await time.fill(value)
    await time.blur()
    await page.waitForFunction(([input, text]) => input.value === text, [await time.elementHandle(), taken], wait)
  }
  await time.fill('')
  await dialog.getByText('This field is required').waitFor(wait)
  assert.ok(await trigger.isDisabled())
})
