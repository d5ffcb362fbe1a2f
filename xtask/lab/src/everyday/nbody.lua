-- Five bodies, and a table of strings.
local bodies = {}
for i = 1, 5 do
  bodies[i] = { x = i * 1.5, y = i * i * 0.3, z = 2.0 / i, vx = 0.1 * i, vy = 0.0, vz = -0.05 * i, m = 1.0 / i }
end
local function step(dt)
  for i = 1, #bodies do
    local a = bodies[i]
    for j = i + 1, #bodies do
      local b = bodies[j]
      local dx, dy, dz = a.x - b.x, a.y - b.y, a.z - b.z
      local d = dx * dx + dy * dy + dz * dz
      local f = dt / (d * math.sqrt(d))
      a.vx = a.vx - dx * b.m * f; a.vy = a.vy - dy * b.m * f; a.vz = a.vz - dz * b.m * f
      b.vx = b.vx + dx * a.m * f; b.vy = b.vy + dy * a.m * f; b.vz = b.vz + dz * a.m * f
    end
  end
  for i = 1, #bodies do
    local a = bodies[i]
    a.x = a.x + dt * a.vx; a.y = a.y + dt * a.vy; a.z = a.z + dt * a.vz
  end
end
for _ = 1, 6000 do step(0.001) end
local seen, n = {}, 0
for i = 1, 20000 do
  local key = "k" .. (i * 7919 % 10007)
  if not seen[key] then seen[key] = i; n = n + 1 end
end
print(n, bodies[1].x)
