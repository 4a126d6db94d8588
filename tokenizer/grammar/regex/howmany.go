package regex

import "weir/internal/work"

// countLength bounds the texts that Count looks at, in bytes.
const countLength = 4_096

// Count is how many texts match a node, at most limit. Where only texts beyond a length would tell, there are as many as the limit.
func (a *Automaton) Count(n Node, limit int) (int, error) {
	sizes := make([]int, len(a.members))
	for _, class := range a.classes {
		sizes[class]++
	}
	found := 0
	ways := map[Node]int{n: 1} // beginnings of one length, by what must follow
	for range countLength {
		next, open := map[Node]int{}, 0
		for id, w := range ways {
			if a.Nullable(id) {
				found += w
			}
			for class, b := range a.members {
				rest, err := a.Derive(id, b)
				if err != nil {
					return 0, err
				}
				if alive, err := a.Alive(rest); err != nil || !alive {
					if err != nil {
						return 0, err
					}
					continue
				}
				next[rest] = min(next[rest]+w*sizes[class], limit)
			}
		}
		for _, w := range next {
			open += w
		}
		if found+open >= limit { // different beginnings of one length lead to different texts
			return limit, nil
		}
		if len(next) == 0 {
			return found, nil
		}
		ways = next
	}
	return limit, nil
}

// CountUnder is how many texts match, at most limit, within a meter and some bytes.
func (r *Regex) CountUnder(m *work.Meter, room int64, limit int) (int, error) {
	a, nodes, err := NewAutomatonUnder(m, room, r)
	if err != nil {
		return 0, err
	}
	alive, err := a.Alive(nodes[0])
	if err != nil || !alive {
		return 0, err
	}
	return a.Count(nodes[0], limit)
}
