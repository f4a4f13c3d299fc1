// A leaderboard's page in a real browser: it shows the rows that the API answers, and new ones as plays come.
//
// Deploys examples/songs beside what the platform of SLICEWISE_STATE serves, and plays songs.
import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { opened, platform, root, wait } from './browser.mjs'

const slicewise = join(root, '.venvs/platform/bin/slicewise')
const env = { ...process.env, SLICEWISE_PROJECT: join(root, 'examples', 'songs') }
let address, load, close, page

function run (...words) {
  return execFileSync(slicewise, words, { encoding: 'utf8', env, timeout: 240_000 })
}

before(async () => {
  address = platform().serving
  run('apply', '--no-wait')
  run('stream', 'ensure')
  load = spawn(slicewise, ['load', '--rate', '200', '--songs', '500', '--seconds', '600'], { env, stdio: 'ignore' });
  ({ page, close } = await opened({ width: 900, height: 760 }))
})

after(async () => {
  load?.kill()
  await close?.()
})

test('the page of a leaderboard shows the ten, and moves as songs are played', async () => {
  const errors = []
  page.on('pageerror', error => errors.push(error.message))
  page.on('request', request => { if (!request.url().startsWith(address)) errors.push(`asks ${request.url()}`) })
  await page.goto(address, wait)
  await page.getByRole('link', { name: /songs:plays_10s/ }).click()
  await page.locator('tbody tr').nth(9).waitFor({ timeout: 180_000 })
  const read = async () => ({
    said: await page.locator('#said').innerText(),
    rows: await page.locator('tbody tr').evaluateAll(rows => rows.map(row => [...row.cells].map(cell => cell.innerText)))
  })
  const first = await read()
  assert.match(first.said, /window until .*Z, \d+\.\d s ago/)
  assert.equal(first.rows.length, 10)
  assert.deepEqual(first.rows.map(row => row[0]), ['1', '2', '3', '4', '5', '6', '7', '8', '9', '10'])
  const values = first.rows.map(row => Number(row[3]))
  assert.ok(values.every((value, i) => value > 0 && (i === 0 || value <= values[i - 1])), String(values))
  assert.equal(new Set(first.rows.map(row => row[1])).size, 10)

  // a later window, without the page being loaded anew
  const until = said => said.match(/until (\S+),/)?.[1]
  await page.waitForFunction(before => {
    const now = document.querySelector('#said').textContent.match(/until (\S+),/)?.[1]
    return now !== undefined && now > before
  }, until(first.said), { timeout: 30_000 })
  assert.deepEqual(errors, [])

  // what the page shows is what the API answers
  const answer = await (await fetch(`${address}/v1/leaderboards/top_songs`)).json()
  assert.equal(answer.rows.length, 10)
  assert.equal(answer.feature, 'songs:plays_10s')
  if (process.env.PICTURES) { // of a leaderboard that has caught up
    await page.waitForFunction(() => !document.querySelector('#said').classList.contains('flag'), null, { timeout: 60_000 })
    await page.screenshot({ path: join(root, 'docs', 'pictures', 'leaderboard.png') })
  }
})
