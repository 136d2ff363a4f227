// METHOD URL [AUTHORIZATION]: with Node's own fetch.
const [method, url, authorization] = process.argv.slice(2)
const answer = await fetch(url, {
  method,
  headers: {...(authorization && {Authorization: authorization}), ...(method === 'POST' && {'Content-Type': 'application/json'})},
  body: method === 'POST' ? '{"title": "world"}' : undefined,
})
if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`)
console.log(await answer.text())
