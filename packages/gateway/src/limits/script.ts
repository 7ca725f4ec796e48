/**
 * One atomic step for one request: prune, look at every limit, and count the items in all of them or in none.
 * KEYS are lists, one a limit, of `tick items sum` (milliseconds, items in that tick, items up to its end). ARGV is the
 * number of items, then for each limit its requests, its window and its tick in milliseconds. Time is the server's own.
 * Returns the number of the limit that refuses (0: none) and the wait in milliseconds, then for each limit what was used
 * before and the time until its oldest item leaves.
 */
export const CONSUME_SCRIPT = `
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local items = tonumber(ARGV[1])
local function read(text)
  local tick, size, sum = string.match(text, '^(%d+) (%d+) (%d+)$')
  return tonumber(tick), tonumber(size), tonumber(sum)
end
local reply = { 0, 0 }
local states = {}
for i, key in ipairs(KEYS) do
  local limit, window, grain = tonumber(ARGV[3 * i - 1]), tonumber(ARGV[3 * i]), tonumber(ARGV[3 * i + 1])
  local state = { window = window, tick = math.ceil(now / grain) * grain, used = 0, sum = 0 }
  local oldest = window
  local last = redis.call('LINDEX', key, -1)
  local tick, size, sum
  if last then tick, size, sum = read(last) end
  if last and (tick + window <= now or tick > now + window + grain) then
    redis.call('DEL', key)
  elseif last then
    local head, headSize, headSum = read(redis.call('LINDEX', key, 0))
    while head + window <= now do
      redis.call('LPOP', key)
      head, headSize, headSum = read(redis.call('LINDEX', key, 0))
    end
    local before = headSum - headSize
    state.last, state.size, state.sum = tick, size, sum
    state.used = sum - before
    oldest = head + window - now
    if reply[1] == 0 and items <= limit and state.used + items > limit then
      local wanted = before + state.used + items - limit
      local low, high = 0, redis.call('LLEN', key) - 1
      while low < high do
        local middle = math.floor((low + high) / 2)
        local _, _, upTo = read(redis.call('LINDEX', key, middle))
        if upTo >= wanted then high = middle else low = middle + 1 end
      end
      local frees = read(redis.call('LINDEX', key, low))
      reply[1], reply[2] = i, math.ceil(frees + window - now)
    end
  end
  if reply[1] == 0 and items > limit then reply[1], reply[2] = i, window end
  states[i] = state
  reply[2 * i + 1], reply[2 * i + 2] = state.used, math.ceil(oldest)
end
if reply[1] == 0 then
  for i, key in ipairs(KEYS) do
    local state = states[i]
    local tick, size = state.tick, items
    if state.last and state.last >= tick then tick, size = state.last, state.size + items end
    local entry = string.format('%.0f %.0f %.0f', tick, size, state.sum + items)
    if tick == state.last then redis.call('LSET', key, -1, entry) else redis.call('RPUSH', key, entry) end
    redis.call('PEXPIRE', key, state.window + 1000)
  end
end
return reply
`;
