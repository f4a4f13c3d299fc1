// The page from red to green in a real browser, on a running platform: at three widths, in the light and in the dark.
// Its story is written as checks and compactions write theirs, and taken away again.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { opened, readable, root, signedIn, wait } from './browser.mjs'

const HOSTILE = '<img src=x onerror="document.title=1">'
let airflow, close, page, earlier

// runs lines of Python by which the record is read and changed; what they print
function record (...lines) {
  const code = [
    'import sys, time',
    'from slicewise.lifecycle.healing.record import PART, Healing, Job',
    'from slicewise.settings import Settings',
    'from slicewise.stores.online.redis.status import amend_part, read_part',
    'url, now = Settings.load().redis_url, time.time_ns() // 1000',
    'job = lambda s: Job(now - s * 10**6, f"report{s}", "check_consistency", "manual__2026-11-28T08:00:00+00:00")',
    ...lines
  ].join('\n')
  return execFileSync(join(root, '.venvs/platform/bin/python'), ['-c', code, HOSTILE], { encoding: 'utf8' })
}

before(async () => {
  ({ page, close } = await opened())
  earlier = record('print(Healing.of(read_part(url, PART)).text())').trim()
  record(
    'hour = now // 3_600_000_000',
    'value = {"view": "carrier_delays", "feature": "departures_1h", "entity": sys.argv[1] * 3,',
    '         "online": "3", "offline": "2", "cause": "doubled"}',
    'whole = Healing().red(job(90), {"carrier_delays": hour - 3}, hour, [value], began_us=0)',
    'whole = whole.recomputed(job(60), {"carrier_delays": {hour - 3, hour - 2}}, {"carrier_delays"})',
    'whole = whole.green(job(30), {"carrier_delays"}, 4321, began_us=now - 40 * 10**6)',
    'amend_part(url, PART, lambda _: whole.text())'
  )
  airflow = await signedIn(page)
})

after(async () => {
  await close?.()
  record(`amend_part(url, PART, lambda _: Healing.of([${JSON.stringify(earlier)}]).text())`)
})

for (const width of [400, 800, 1280]) {
  for (const colorScheme of ['light', 'dark']) {
    test(`a story can be read at ${width} pixels, ${colorScheme}`, async () => {
      const back = await readable(page, `${airflow}/slicewise/stories/`, width, colorScheme, async () => {
        await page.getByText('values', { exact: true }).click(wait)
      })
      const marks = await page.evaluate(() => {
        return [...document.querySelectorAll('.red, .green')].map(mark => window.light(getComputedStyle(mark).color))
      })
      assert.ok(marks.length >= 3 && marks.every(one => Math.abs(one - back) > 60), `${marks} on ${back}`)
      const text = await page.locator('body').innerText()
      for (const words of ['the gate is open', 'the check is red', 'recomputed from raw events', '4321 values', 'doubled']) {
        assert.ok(text.includes(words), `${words}: ${text}`)
      }
      assert.ok(text.includes(HOSTILE), 'the entity is shown as it is')
      assert.notEqual(await page.title(), '1', 'the entity ran')
    })
  }
}

test('each step leads to its run in Airflow', async () => {
  const [target] = await page.getByRole('link', { name: 'check_consistency' }).evaluateAll(links => links.map(link => link.href))
  assert.equal(target, `${airflow}/dags/check_consistency/runs/manual__2026-11-28T08%3A00%3A00%2B00%3A00`)
})
