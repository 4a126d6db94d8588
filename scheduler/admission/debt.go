package admission

import "weir/internal/inference"

// Debt is how much more service a tenant has had in a class than the least served
// tenant that waits there, in units of cost at weight 1; 0 for a tenant that is
// not known, and where nobody waits.
func (q *Queue) Debt(tenant string, c inference.Class) uint64 {
	i, known := q.byKey[flowKey{tenant, c}]
	least, any := q.leastServed(c)
	if !known || !any {
		return 0
	}
	own, floor := q.flows.at(i).service, q.flows.at(least).service
	return (own - min(floor, own)) / unitScale
}
