package admission

// groupTable holds the calls of several requests of which some wait.
type groupTable struct {
	entries *entryTable
	groups  slab[group]
	byGroup map[groupKey]int32
}

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
func (gt *groupTable) join(fi, e int32) bool {
	name := gt.entries.at(e).item.Group
	if name == "" {
		return false
	}
	key := groupKey{fi, name}
	gi, ok := gt.byGroup[key]
	if !ok {
		gi = gt.groups.take()
		*gt.groups.at(gi) = group{key: key, rest: emptyLine}
		gt.byGroup[key] = gi
		gt.entries.at(e).group = gi
		return false
	}
	g, n := gt.groups.at(gi), gt.entries.at(e)
	g.joined++
	n.group, n.where, n.place = gi, follows, g.joined
	gt.entries.link(&g.rest, e)
	return true
}

// next takes out the next request of a group whose listed one has left: it is to be listed, at the
// end of the line. It is none for a group of which none waits any more, which is forgotten.
func (gt *groupTable) next(gi int32) int32 {
	g := gt.groups.at(gi)
	e := g.rest.head
	if e == none {
		delete(gt.byGroup, g.key)
		gt.groups.put(gi)
		return none
	}
	gt.entries.unlinkFrom(&g.rest, e)
	g.left++
	return e
}
