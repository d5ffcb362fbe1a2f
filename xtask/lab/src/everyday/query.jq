map(select(.size > 300 and (.tags | length) > 1) | {name, total: (.size * .count), first: .tags[0]})
| group_by(.first) | map({tag: .[0].first, sum: (map(.total) | add), names: (map(.name) | sort | .[0:3])})
