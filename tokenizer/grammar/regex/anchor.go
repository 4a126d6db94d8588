package regex

// anchored is a part of a pattern by what it needs of its surroundings: element needsStart|needsEnd is what matches where the text begins
// before it and ends after it. Nil is nothing.
type anchored [4]*Regex

const (
	needsStart = 1
	needsEnd   = 2
)

func plainly(r *Regex) anchored { return anchored{0: r} }

func (a anchored) isPlain() bool { return a[1] == nil && a[2] == nil && a[3] == nil }

// whole is the language of a pattern: of the texts that it matches, or, for a search, in which it matches somewhere.
func (a anchored) whole(search bool) *Regex {
	var all []*Regex
	for need, r := range a {
		if r == nil {
			continue
		}
		if search && need&needsStart == 0 {
			r = Concat(anyText, r)
		}
		if search && need&needsEnd == 0 {
			r = Concat(r, anyText)
		}
		all = append(all, r)
	}
	return Or(all...)
}

func anyOf(all []anchored) anchored {
	if len(all) == 1 {
		return all[0]
	}
	var result anchored
	for need := range result {
		var parts []*Regex
		for _, a := range all {
			if a[need] != nil {
				parts = append(parts, a[need])
			}
		}
		if len(parts) > 0 {
			result[need] = Or(parts...)
		}
	}
	return result
}

// sequenceOf joins parts; runs of plain ones at once, so that long patterns take linear time.
func sequenceOf(items []anchored) anchored {
	result := plainly(empty)
	for i := 0; i < len(items); {
		var run []*Regex
		for ; i < len(items) && items[i].isPlain() && items[i][0] != nil; i++ {
			run = append(run, items[i][0])
		}
		if len(run) > 0 {
			result = result.then(plainly(Concat(run...)))
			continue
		}
		result = result.then(items[i])
		i++
	}
	return result
}

// then is a followed by b. What needs the text's start leaves no room for a text before it, and the same at the end.
func (a anchored) then(b anchored) anchored {
	var result anchored
	for i, x := range a {
		for j, y := range b {
			left, right := x, y
			if x == nil || y == nil {
				continue
			}
			if j&needsStart != 0 {
				if !x.Nullable() {
					continue
				}
				left = empty
			}
			if i&needsEnd != 0 {
				if !y.Nullable() {
					continue
				}
				right = empty
			}
			both := Concat(left, right)
			if result[i|j] != nil {
				both = Or(result[i|j], both)
			}
			result[i|j] = both
		}
	}
	return result
}

// repeat fails where an anchor would be repeated.
func (a anchored) repeat(least, most int) (anchored, bool) {
	if a.isPlain() {
		if a[0] == nil {
			a[0] = nothing
		}
		return plainly(Repeat(a[0], least, most)), true
	}
	switch {
	case most == 0:
		return plainly(empty), true
	case most == 1 && least == 0:
		return anyOf([]anchored{plainly(empty), a}), true
	case most == 1:
		return a, true
	}
	return a, false
}
