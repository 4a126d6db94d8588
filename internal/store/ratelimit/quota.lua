-- The meter of package quota, in Redis: what State's methods do there is done here,
-- in whole numbers below 2^53, by the server's time. One tenant's state is three keys:
--   KEYS[1] hash of states: field "" is the tenant's of all models, field m its of model m,
--           field "\0k" that of the key whose account is k
--   KEYS[2] sorted set of open grants by the end of their lease
--   KEYS[3] hash of open grants
-- ARGV[1] is the operation, ARGV[2] the lease in milliseconds, ARGV[3] is 1 where the
-- caller knows from elsewhere what was spent: where a budget is not counted here yet,
-- nothing is decided then, the answer is -2, and the caller sends a seed first.
local UNIT, MOST = 60000, 9e15
local DAY = 86400000

local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)

local function floordiv(a, b)
	local r = math.fmod(a, b)
	if r < 0 then r = r + b end
	return (a - r) / b
end

-- months since year 0, by the civil calendar: days are counted from 1 March of year 0
-- in eras of 400 years.
local function month(day)
	local z = day + 719468
	local era = floordiv(z, 146097)
	local doe = z - era * 146097
	local yoe = floordiv(doe - floordiv(doe, 1460) + floordiv(doe, 36524) - floordiv(doe, 146096), 365)
	local doy = doe - (365 * yoe + floordiv(yoe, 4) - floordiv(yoe, 100))
	local mp = floordiv(5 * doy + 2, 153)
	local m = mp < 10 and mp + 3 or mp - 9
	local y = yoe + era * 400 + (m <= 2 and 1 or 0)
	return y * 12 + m - 1
end

-- A state: born (when it was made), at, level[1..4], streams, out (held output), tokens and money held, day,
-- month, what was spent in them, and the limits of the last request: bucket[1..4],
-- streams, daily and monthly tokens, daily and monthly cost, and what of them is strict:
-- 1 for tokens, 2 for money, 3 for both. counted is true once what was spent is counted
-- here, and what came before was told.
local states = {}

local function hasbudget(s) return s.lim[6] > 0 or s.lim[7] > 0 or s.lim[8] > 0 or s.lim[9] > 0 end

local function refresh(s)
	local elapsed = math.max(now - s.at, 0)
	s.at = math.max(s.at, now)
	for k = 1, 4 do
		local leak = elapsed * s.lim[k]
		if s.lim[k] <= 0 or leak >= s.level[k] then s.level[k] = 0 else s.level[k] = s.level[k] - leak end
	end
	s.counted = s.counted and hasbudget(s)
	local day = floordiv(s.at, DAY)
	if day > s.day then
		s.day, s.daytok, s.daymoney = day, 0, 0
		local mon = month(day)
		if mon > s.mon then s.mon, s.montok, s.monmoney = mon, 0, 0 end
	end
end

local function load(name, lim)
	local s = states[name]
	if not s then
		local packed = redis.call('HGET', KEYS[1], name)
		if packed then
			s = cmsgpack.unpack(packed)
		else
			s = {born = now, at = 0, level = {0, 0, 0, 0}, streams = 0, out = 0, tokens = 0, money = 0,
				day = 0, mon = 0, daytok = 0, daymoney = 0, montok = 0, monmoney = 0, lim = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}
		end
		states[name] = s
		if lim then s.lim = lim end
		refresh(s)
	end
	return s
end

local function extend(ttl)
	ttl = string.format('%.0f', ttl + UNIT)
	for k = 1, 3 do
		redis.call('PEXPIRE', KEYS[k], ttl, 'GT')
		redis.call('PEXPIRE', KEYS[k], ttl, 'NX')
	end
end

-- save keeps what was changed. All keys live as long as anything in them matters.
local function save(lease)
	local ttl = 2 * lease
	for name, s in pairs(states) do
		redis.call('HSET', KEYS[1], name, cmsgpack.pack(s))
		if hasbudget(s) then ttl = math.max(ttl, 40 * DAY) end
		for k = 1, 4 do
			if s.lim[k] > 0 then ttl = math.max(ttl, math.min(math.floor(s.level[k] / s.lim[k]), 400 * DAY)) end
		end
	end
	extend(ttl)
end

local function heldin(s, k) if k == 2 or k == 4 then return s.out end return 0 end
local function room(s, k) return floordiv(s.lim[k] * UNIT - s.level[k], UNIT) - heldin(s, k) end
local function charge(s, k, n) if s.lim[k] > 0 then s.level[k] = math.min(s.level[k] + n * UNIT, MOST) end end

local function refund(s, k, n, elapsed)
	local back = n * UNIT
	if s.lim[k] > 0 and elapsed * s.lim[k] <= back then
		s.level[k] = math.max(s.level[k] - (back - elapsed * s.lim[k]), 0)
	end
end

-- what budgets have left, or nil where there is none
local function tokensleft(s)
	local a = s.lim[6] > 0 and s.lim[6] - s.daytok - s.tokens or nil
	local b = s.lim[7] > 0 and s.lim[7] - s.montok - s.tokens or nil
	if a and b then return math.min(a, b) end
	return a or b
end

local function moneyleft(s)
	local a = s.lim[8] > 0 and s.lim[8] - s.daymoney - s.money or nil
	local b = s.lim[9] > 0 and s.lim[9] - s.monmoney - s.money or nil
	if a and b then return math.min(a, b) end
	return a or b
end

local function stricttokens(s) return s.lim[10] % 2 == 1 end
local function strictmoney(s) return s.lim[10] >= 2 end

-- what a request may reserve of a budget at most: of a strict one also what is held
local function had(left, held, strict)
	if left and strict then return left + held end
	return left
end

local function spend(s, tokens, cost)
	if not hasbudget(s) then return end
	local function sum(a, b) return math.max(math.min(a + b, MOST), 0) end
	s.daytok, s.daymoney = sum(s.daytok, tokens), sum(s.daymoney, cost)
	s.montok, s.monmoney = sum(s.montok, tokens), sum(s.monmoney, cost)
end

local function release(s, g)
	s.streams = s.streams - 1
	s.out = s.out - (g.output - g.charged)
	s.tokens = s.tokens - (g.input + g.output)
	s.money = s.money - g.money
end

local function drop(id)
	redis.call('ZREM', KEYS[2], id)
	redis.call('HDEL', KEYS[3], id)
end

local function keep(id, g, lease)
	redis.call('HSET', KEYS[3], id, cmsgpack.pack(g))
	redis.call('ZADD', KEYS[2], string.format('%.0f', now + lease), id)
end

-- expire ends the grants that were not renewed: the process that had them is gone, or cannot reach Redis. What such a
-- request has used is not known, so all that it may have used counts as spent: what its last renewal said, or what it held. Should
-- it end after all, within KEPT, what it really used counts instead.
local KEPT = DAY
local function expire()
	for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', now))) do
		local packed = redis.call('HGET', KEYS[3], id)
		local g = packed and cmsgpack.unpack(packed)
		if g and not g.lapsed then
			g.lapsed, g.tokens, g.cost = true, g.input + (g.most or g.output), g.mostcost or g.money
			for _, name in ipairs(g.parts) do
				local s = load(name)
				release(s, g)
				spend(s, g.tokens, g.cost)
			end
			keep(id, g, KEPT)
		else
			drop(id)
		end
	end
end

-- recall takes back what a lapsed grant was taken to have used.
local function recall(g)
	for _, name in ipairs(g.parts) do spend(load(name), -g.tokens, -g.cost) end
end

-- answer returns numbers, then the states of the parts, as strings.
local function answer(numbers, parts)
	local list = {}
	local function add(n) list[#list + 1] = string.format('%.0f', n) end
	for _, n in ipairs(numbers) do add(n) end
	for _, name in ipairs(parts) do
		local s = states[name]
		add(s.at)
		for k = 1, 4 do add(s.level[k]) end
		for _, n in ipairs({s.streams, s.out, s.tokens, s.money, s.day, s.mon, s.daytok, s.daymoney, s.montok, s.monmoney}) do add(n) end
	end
	return list
end

local op, lease = ARGV[1], tonumber(ARGV[2])

-- limits reads those of a part, whose name is ARGV[i].
local function limits(i)
	local lim = {}
	for k = 1, 10 do lim[k] = tonumber(ARGV[i + k]) end
	return lim
end

if op == 'seed' then -- day, month, then name and limits of a part, tokens and money of the day, tokens and money of the month
	for i = 6, #ARGV, 15 do
		local s = load(ARGV[i], limits(i))
		if hasbudget(s) and not s.counted then
			local function raise(name, k) s[name] = math.max(s[name], tonumber(ARGV[i + k])) end
			if s.day == tonumber(ARGV[4]) then raise('daytok', 11) raise('daymoney', 12) end
			if s.mon == tonumber(ARGV[5]) then raise('montok', 13) raise('monmoney', 14) end
			s.counted = true
		end
	end
	save(lease)
	return answer({1, 0, 0}, {})
end

-- parts reads names and limits from ARGV[i] on.
local untold = false
local function parts(i)
	local names = {}
	while ARGV[i] do
		local s = load(ARGV[i], limits(i))
		names[#names + 1] = ARGV[i]
		if ARGV[3] == '1' and hasbudget(s) and not s.counted then untold = true end
		i = i + 11
	end
	return names
end
local function tell()
	save(lease)
	return answer({-2, 0, 0}, {})
end

if op == 'reserve' then -- id, input, output, money, least money, then parts
	local id = ARGV[4]
	local input, output, money, leastmoney = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
	local names = parts(9)
	expire()
	if untold then return tell() end
	for _, name in ipairs(names) do
		local s, least = states[name], math.min(output, 1)
		if s.lim[2] > 0 then output = math.min(output, math.max(s.lim[2] - input, 0)) end
		if s.lim[4] > 0 then output = math.min(output, s.lim[4]) end
		local left = had(tokensleft(s), s.tokens, stricttokens(s))
		if left then output = math.min(output, math.max(left - input, least)) end
		left = had(moneyleft(s), s.money, strictmoney(s))
		if left then money = math.min(money, math.max(left, leastmoney)) end
	end
	local ok = true
	for _, name in ipairs(names) do
		local s = states[name]
		for k, n in ipairs({1, input + output, input, output}) do
			if s.lim[k] > 0 and n > room(s, k) then ok = false end
		end
		if s.lim[5] > 0 and s.streams >= s.lim[5] then ok = false end
		local left = tokensleft(s)
		if left and input + output > left then ok = false end
		left = moneyleft(s)
		if left and money > 0 and money > left then ok = false end
	end
	if ok then
		for _, name in ipairs(names) do
			local s = states[name]
			charge(s, 1, 1) charge(s, 2, input) charge(s, 3, input)
			s.streams = s.streams + 1
			s.out = s.out + output
			s.tokens = s.tokens + input + output
			s.money = s.money + money
		end
		keep(id, {at = now, input = input, output = output, charged = 0, money = money, parts = names}, lease)
	end
	save(lease)
	return answer({ok and 1 or 0, output, money}, names)
end

if op == 'remaining' then -- parts
	local names = parts(4)
	expire()
	if untold then return tell() end
	save(lease)
	return answer({1, 0, 0}, names)
end

if op == 'renew' then -- id, the most output that it counts for where its lease ends next, and what input and that cost
	for i = 4, #ARGV, 3 do
		local packed = redis.call('HGET', KEYS[3], ARGV[i])
		local g = packed and cmsgpack.unpack(packed)
		if g and not g.lapsed then
			g.most, g.mostcost = math.min(tonumber(ARGV[i + 1]), g.output), math.min(tonumber(ARGV[i + 2]), g.money)
			keep(ARGV[i], g, lease)
		end
	end
	extend(2 * lease)
	return answer({1, 0, 0}, {})
end

-- topup and settle: of an open grant, id
expire()
local id = ARGV[4]
local packed = redis.call('HGET', KEYS[3], id)
local g = packed and cmsgpack.unpack(packed)
if g then
	for _, name in ipairs(g.parts) do load(name) end
end
local lapsed = g and g.lapsed
if lapsed then recall(g) end

if op == 'topup' then -- generated, cover, cost of cover, cost of generated, input, then parts
	local generated, cover = tonumber(ARGV[5]), tonumber(ARGV[6])
	if not g or lapsed then -- its lease ended, or Redis was restarted: it is opened again
		g = {at = now, input = tonumber(ARGV[9]), output = 0, charged = 0, money = 0, parts = parts(10)}
		if untold then
			if lapsed then drop(id) end
			return tell()
		end
		for _, name in ipairs(g.parts) do
			local s = states[name]
			s.streams, s.tokens = s.streams + 1, s.tokens + g.input
		end
	end
	local money, leastmoney = math.max(tonumber(ARGV[7]) - g.money, 0), math.max(tonumber(ARGV[8]) - g.money, 0)
	local tokens, least = math.max(cover - g.output, 0), math.max(generated - g.output, 0)
	local ok = true
	for _, name in ipairs(g.parts) do
		local s = states[name]
		if stricttokens(s) then
			local left = 1e10
			for _, k in ipairs({2, 4}) do if s.lim[k] > 0 then left = math.min(left, room(s, k)) end end
			left = math.min(left, tokensleft(s) or left)
			if left < tokens then
				tokens = math.max(left, 0)
				if tokens < least then ok = false end
			end
		end
		if strictmoney(s) then
			local left = moneyleft(s) or MOST
			if left < money then
				money = math.max(left, 0)
				if money < leastmoney then ok = false end
			end
		end
	end
	if ok then
		g.output, g.money, g.most, g.mostcost = g.output + tokens, g.money + money, nil, nil
		local more = math.max(math.min(generated, g.output) - g.charged, 0)
		g.charged = g.charged + more
		for _, name in ipairs(g.parts) do
			local s = states[name]
			s.out = s.out + tokens - more
			s.tokens = s.tokens + tokens
			s.money = s.money + money
			charge(s, 2, more) charge(s, 4, more)
		end
	end
	keep(id, g, lease)
	save(lease)
	return answer({ok and 1 or 0, g.output, g.money}, g.parts)
end

-- settle: ran, input, output, cost, when it was granted, then parts
local ran, input, output, cost = ARGV[5] == '1', tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
if not g then
	-- It was settled before, or its lease has ended, or Redis was restarted since: then
	-- what it used counts.
	local names, at = parts(10), tonumber(ARGV[9])
	if untold then return tell() end
	for _, name in ipairs(names) do
		local s = states[name]
		if ran and (s.born or 0) > at then
			charge(s, 2, input + output) charge(s, 3, input) charge(s, 4, output)
			spend(s, input + output, cost)
		end
	end
	if next(states) then save(lease) end
	return answer({-1, 0, 0}, {})
end
if lapsed then -- its limits per minute have leaked since
	for _, name in ipairs(g.parts) do spend(states[name], input + output, cost) end
	drop(id)
	save(lease)
	return answer({1, 0, 0}, g.parts)
end
for _, name in ipairs(g.parts) do
	local s = states[name]
	release(s, g)
	local elapsed = math.max(s.at - g.at, 0)
	if not ran then refund(s, 1, 1, elapsed) end
	if input >= g.input then
		charge(s, 2, input - g.input) charge(s, 3, input - g.input)
	else
		refund(s, 2, g.input - input, elapsed) refund(s, 3, g.input - input, elapsed)
	end
	local more = math.max(output - g.charged, 0)
	charge(s, 2, more) charge(s, 4, more)
	spend(s, input + output, cost)
end
drop(id)
save(lease)
return answer({1, 0, 0}, g.parts)
