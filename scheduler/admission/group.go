package admission

// group is one call of several requests. While any of them waits, exactly one
// of them is listed in the flow, in line or set aside; the others follow it.
type group struct {
	key    groupKey
	rest   line   // the followers, in order of arrival
	joined uint64 // followers ever
	left   uint64 // of these, followers that joined the line or left the queue
}

type groupKey struct {
	flow int32
	name string
}

// join puts an entry behind the listed request of its group, or reports false
// when there is none: then the entry is to be listed.
func (q *Queue) join(fi, e int32) bool {
	name := q.entries.at(e).item.Group
	if name == "" {
		return false
	}
	key := groupKey{fi, name}
	gi, ok := q.byGroup[key]
	if !ok {
		gi = q.groups.take()
		*q.groups.at(gi) = group{key: key, rest: emptyLine}
		q.byGroup[key] = gi
		q.entries.at(e).group = gi
		return false
	}
	g, n := q.groups.at(gi), q.entries.at(e)
	g.joined++
	n.group, n.where, n.place = gi, follows, g.joined
	q.link(&g.rest, e)
	return true
}

// succeed lists the next request of a group whose listed one has left, at the
// end of the line.
func (q *Queue) succeed(fi, gi int32) {
	g := q.groups.at(gi)
	e := g.rest.head
	if e == none {
		delete(q.byGroup, g.key)
		q.groups.put(gi)
		return
	}
	q.unlinkFrom(&g.rest, e)
	g.left++
	q.list(fi, e)
}
