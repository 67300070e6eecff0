-- One command, with everything it writes, as one script: Redis runs nothing else meanwhile, and
-- writes its effects to the append-only file as one transaction.
--
-- KEYS: the idempotency key, the resource, the audit list, the outbox.
-- ARGV: fingerprint (32 bytes), resource, key, expected revision or '', body, id of the audit
-- entry, time.
-- Returns the outcome; or an error: KEY, the key has been used for another request; STALE and the
-- revision.
local seen = redis.call('GET', KEYS[1])
if seen then
    if string.sub(seen, 1, 32) == ARGV[1] then
        return string.sub(seen, 33)
    end
    return redis.error_reply('KEY')
end
local revision = tonumber(redis.call('HGET', KEYS[2], 'revision') or 0)
if ARGV[4] ~= '' and tonumber(ARGV[4]) ~= revision then
    return redis.error_reply('STALE ' .. revision)
end
revision = revision + 1
local entry = '{"auditId":"' .. ARGV[6]
    .. '","commandKind":"request_deposit","actorKind":"headquarters_administrator",'
    .. '"actorProfileId":"hq-1","idempotencyKey":"' .. ARGV[3]
    .. '","beforeStatus":"awaiting_branch_deposit","afterStatus":"awaiting_branch_deposit",'
    .. '"recordedAt":"' .. ARGV[7] .. '","reason":null,"resultMessage":null}'
local outcome = '{"resource":"' .. ARGV[2] .. '","revision":' .. revision
    .. ',"status":"awaiting_branch_deposit","updatedAt":"' .. ARGV[7]
    .. '","command":' .. ARGV[5] .. ',"transitionAudits":[' .. entry
    .. ']}'
redis.call('HSET', KEYS[2], 'revision', revision, 'state', ARGV[5])
redis.call('RPUSH', KEYS[3], ARGV[2] .. ' ' .. revision .. ' ' .. entry)
redis.call('RPUSH', KEYS[4], '{"event":"resource_advanced","resource":"' .. ARGV[2]
    .. '","revision":' .. revision .. ',"idempotencyKey":"' .. ARGV[3]
    .. '","occurredAt":"' .. ARGV[7] .. '"}')
redis.call('SET', KEYS[1], ARGV[1] .. outcome)
return outcome
