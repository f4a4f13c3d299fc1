// What Airflow's forms do to a running platform, in a real browser: hours are compacted again, drivers are restarted, the
// stream is drained. Played after all that looks at the platform, as pictures would show it.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { form, opened, platform, runs, triggered, wait } from './browser.mjs'

let airflow, close, page

before(async () => {
  airflow = platform().airflow;
  ({ page, close } = await opened())
})

after(async () => close?.())

async function backfillForm () {
  const { dialog } = await form(page, airflow, 'compact_slices')
  await dialog.getByText('Backfill', { exact: true }).click(wait)
  return { dialog, begin: dialog.getByRole('button', { name: 'Run Backfill' }) }
}

// an end of the range, nth: 0 from, 1 to; hour as 2026-11-21T08
async function choose (dialog, nth, hour) {
  await dialog.getByTestId('datetime-input').nth(nth).click(wait)
  const picker = page.getByRole('dialog').filter({ has: page.getByPlaceholder('YYYY/MM/DD') })
  await picker.getByPlaceholder('YYYY/MM/DD').fill(hour.slice(0, 10).replaceAll('-', '/'))
  await picker.getByPlaceholder('HH:mm').fill(`${hour.slice(11, 13)}:00`)
  await page.keyboard.press('Escape')
  await picker.waitFor({ state: 'hidden', ...wait }) // one that still fades out has the same fields as the next
}

test('the form of a backfill refuses a range without an end', async () => {
  const { dialog, begin } = await backfillForm()
  await dialog.getByText('Date Range').waitFor(wait)
  assert.ok(await begin.isDisabled())
  await choose(dialog, 0, '2026-11-21T08')
  assert.ok(await begin.isDisabled())
})

test('a backfill of an hour compacts it from raw events, and the page of the hour shows its figures', async () => {
  const earlier = await runs(page, airflow, 'compact_slices')
  const hour = earlier.find(run => run.state === 'success' && run.partition_key)?.partition_key
  assert.ok(hour, `no run has compacted an hour: ${JSON.stringify(earlier)}`)
  const { dialog, begin } = await backfillForm()
  await choose(dialog, 0, hour)
  await choose(dialog, 1, hour)
  await dialog.getByText('All Runs').click()
  // the hour has a run already
  await dialog.getByText('Override parameters on existing runs').click()
  for (const name of ['from_raw', 'only']) {
    await dialog.locator('label[data-scope=field]', { hasText: name }).click()
    assert.ok(await dialog.locator(`input[name=element_${name}]`).isChecked(), name)
  }
  await dialog.getByText('1 run will be triggered').waitFor(wait)
  await begin.click(wait)
  await dialog.waitFor({ state: 'hidden', ...wait })

  const deadline = Date.now() + 240_000
  let run
  while (run?.state !== 'success') {
    assert.ok(Date.now() < deadline && run?.state !== 'failed', JSON.stringify(run))
    await page.waitForTimeout(500)
    run = (await runs(page, airflow, 'compact_slices')).find(one => one.run_type === 'backfill')
  }
  assert.equal(run.partition_key, hour)
  assert.deepEqual([run.conf.from_raw, run.conf.only], [true, true])
  await page.goto(`${airflow}/dags/compact_slices/runs/${encodeURIComponent(run.dag_run_id)}/tasks/hour/mapped/0`, wait)
  await page.getByText(`${hour.slice(0, 10)} ${hour.slice(11, 13)}:00`).first().waitFor(wait)
  await page.getByText(/[\d,]+ events/).first().waitFor(wait)
})

test('drivers are restarted by a form', async () => {
  const { dialog, trigger } = await form(page, airflow, 'restart_stream')
  assert.ok((await dialog.innerText()).includes('all drivers'))
  await triggered(page, airflow, 'restart_stream', trigger)
})

test('the stream is drained by a form, and goes on once ingest_stream is unpaused', async () => {
  const ingest = `${airflow}/api/v2/dags/ingest_stream`
  const { trigger } = await form(page, airflow, 'drain_stream')
  await triggered(page, airflow, 'drain_stream', trigger, 300_000) // the form's own wait_s
  assert.equal((await (await page.request.get(ingest)).json()).is_paused, true)
  const answer = await page.request.patch(ingest, { data: { is_paused: false } })
  assert.equal(answer.status(), 200)
})
