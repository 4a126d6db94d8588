package admission

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"weir/internal/inference"
)

func mustQueue(t testing.TB, cfg Config) *Queue {
	t.Helper()
	q, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func check(t testing.TB, q *Queue) {
	t.Helper()
	if err := q.Check(); err != nil {
		t.Fatal(err)
	}
}

// offer queues "tenant:tokens" items and returns their tickets; refs count up.
func offer(t testing.TB, q *Queue, c inference.Class, specs ...string) []Ticket {
	t.Helper()
	var ts []Ticket
	for _, spec := range specs {
		tenant, tokens, _ := strings.Cut(spec, ":")
		n, err := strconv.Atoi(tokens)
		if err != nil {
			t.Fatal(err)
		}
		id, err := q.Offer(Item{Ref: q.offers + 1, Tenant: tenant, Class: c, Tokens: n, Cost: uint64(10 * n)})
		if err != nil {
			t.Fatal(err)
		}
		check(t, q)
		ts = append(ts, id)
	}
	return ts
}

// takeAll admits everything, class by class in order, uncached.
func takeAll(t testing.TB, q *Queue) (refs []uint64) {
	t.Helper()
	for q.Len() > 0 {
		for _, c := range q.Order() {
			if ref, ok := takeNext(t, q, c); ok {
				refs = append(refs, ref)
				break
			}
		}
	}
	return refs
}

func takeNext(t testing.TB, q *Queue, c inference.Class) (uint64, bool) {
	t.Helper()
	q.Scan(c, false)
	ref, id, ok := q.Next()
	if ok {
		e, _ := q.entries.index(uint64(id))
		q.Done(q.Take(q.entries.at(e).item.Cost))
	}
	q.EndScan()
	check(t, q)
	return ref, ok
}

func TestOrder(t *testing.T) {
	for _, tc := range []struct {
		name string
		fill func(q *Queue)
		want []uint64
	}{
		{"first come first served inside a tenant", func(q *Queue) {
			offer(t, q, inference.Default, "a:9", "a:1", "a:5")
		}, []uint64{1, 2, 3}},
		{"tenants take turns", func(q *Queue) {
			offer(t, q, inference.Default, "a:4", "a:4", "a:4", "b:4", "b:4")
		}, []uint64{1, 4, 2, 5, 3}},
		{"turns go by work, not by requests", func(q *Queue) {
			offer(t, q, inference.Default, "a:8", "a:8", "b:2", "b:2", "b:2", "b:2", "b:2")
		}, []uint64{1, 3, 4, 5, 6, 2, 7}},
		{"classes are strict", func(q *Queue) {
			offer(t, q, inference.Batch, "a:1")
			offer(t, q, inference.Default, "a:1")
			offer(t, q, inference.Interactive, "a:1", "a:1")
		}, []uint64{3, 4, 2, 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			q := mustQueue(t, Config{})
			tc.fill(q)
			if got := takeAll(t, q); !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestWeightsDivideTheWork(t *testing.T) {
	q := mustQueue(t, Config{MaxRequests: 4000})
	for range 400 {
		for tenant, weight := range []int{1, 3, 0} {
			if _, err := q.Offer(Item{Ref: uint64(tenant), Tenant: strconv.Itoa(tenant), Weight: weight, Tokens: 10, Cost: 10}); err != nil {
				t.Fatal(err)
			}
		}
	}
	var taken [3]int
	for range 500 {
		ref, _ := takeNext(t, q, 0)
		taken[ref]++
	}
	if taken != [3]int{100, 300, 100} {
		t.Errorf("tenants of weight 1, 3 and 0 (1) were served %v times", taken)
	}
}

func TestWhatWasUsedIsCharged(t *testing.T) {
	q := mustQueue(t, Config{})
	offer(t, q, 0, "a:10", "a:10", "a:10", "b:10", "b:10", "b:10")
	q.Scan(0, false)
	if ref, _, _ := q.Next(); ref != 1 {
		t.Fatalf("first is %d", ref)
	}
	a := q.Take(10) // all cached: 10 units
	q.EndScan()
	if ref, _ := takeNext(t, q, 0); ref != 4 { // b: 100 units
		t.Fatalf("second is %d", ref)
	}
	q.Charge(a, 80)                            // a: 90 units
	if ref, _ := takeNext(t, q, 0); ref != 2 { // a: 190
		t.Fatalf("third is %d: cached tokens cost too much", ref)
	}
	q.Charge(a, 2000)
	q.Done(a)
	for i, want := range []uint64{5, 6, 3} {
		if ref, _ := takeNext(t, q, 0); ref != want {
			t.Errorf("later %d is %d, want %d: output is not charged", i, ref, want)
		}
	}
}

func TestCallsTakeTurnsInsideATenant(t *testing.T) {
	q := mustQueue(t, Config{})
	add := func(group string, refs ...uint64) {
		for _, ref := range refs {
			if _, err := q.Offer(Item{Ref: ref, Group: group, Cost: 10}); err != nil {
				t.Fatal(err)
			}
			check(t, q)
		}
	}
	add("big", 1, 2, 3, 4, 5)
	add("", 11)
	add("small", 21, 22)
	add("", 12)
	if got, want := takeAll(t, q), []uint64{1, 11, 21, 12, 2, 22, 3, 4, 5}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if len(q.byGroup) != 0 {
		t.Errorf("%d groups are remembered though nothing waits", len(q.byGroup))
	}
}

func TestWhatIsSetAsideKeepsItsPlaceAndCostsNoLook(t *testing.T) {
	q := mustQueue(t, Config{LookAhead: 2})
	offer(t, q, 0, "a:9", "a:9", "a:9", "a:9", "a:9", "a:1")
	q.Scan(0, false)
	for range 5 {
		q.Next()
		q.SetAside()
	}
	ref, _, ok := q.Next()
	if !ok || ref != 6 {
		t.Errorf("behind five that were set aside the scan sees %d %v, want 6", ref, ok)
	}
	q.EndScan()
	check(t, q)
	if ref, ok := takeNext(t, q, 0); !ok || ref != 6 {
		t.Errorf("a scan without them begins with %d %v, want 6", ref, ok)
	}
	q.Scan(0, true)
	for want := uint64(1); want < 3; want++ {
		if ref, _, ok := q.Next(); !ok || ref != want {
			t.Errorf("a scan with them sees %d %v, want %d", ref, ok, want)
		}
		q.Skip()
	}
	q.EndScan()
	check(t, q)
}

func TestTenantsLeaveRoomForOthers(t *testing.T) {
	q := mustQueue(t, Config{MaxRequests: 100, MaxTokens: 10_000})
	fill := func(tenant string, choices int) (n int, err error) {
		for ; err == nil; n++ {
			_, err = q.Offer(Item{Tenant: tenant, Choices: choices, Tokens: 1})
			check(t, q)
		}
		return n - 1, err
	}
	var limit *inference.LimitError
	if n, err := fill("a", 1); n != 50 || !errors.Is(err, inference.ErrTenantQueueFull) || !errors.As(err, &limit) || limit.Need <= limit.Limit {
		t.Errorf("the first tenant got %d in, then %v; want half", n, err)
	}
	if n, err := fill("b", 5); n != 5 || !errors.Is(err, inference.ErrTenantQueueFull) {
		t.Errorf("the second got %d times five choices in, then %v; want half of the rest", n, err)
	}
	for i := range 25 {
		if _, err := q.Offer(Item{Tenant: fmt.Sprint("newcomer ", i)}); err != nil {
			t.Errorf("newcomer %d: %v", i, err)
		}
	}
	if _, err := q.Offer(Item{Tenant: "late"}); !errors.Is(err, inference.ErrQueueFull) {
		t.Errorf("beyond the whole bound: %v", err)
	}
}

func TestIdleTenantsEarnNoCredit(t *testing.T) {
	q := mustQueue(t, Config{MaxRequests: 600})
	for range 200 {
		offer(t, q, 0, "busy:10")
	}
	for range 100 {
		takeNext(t, q, 0)
	}
	for range 50 {
		offer(t, q, 0, "late:10")
	}
	late := 0
	for range 40 {
		if ref, _ := takeNext(t, q, 0); ref > 200 {
			late++
		}
	}
	if late != 20 {
		t.Errorf("the late tenant got %d of 40 turns, want half", late)
	}
}

func TestDebtSurvivesAnEmptyQueue(t *testing.T) {
	q := mustQueue(t, Config{})
	offer(t, q, 0, "greedy:1000", "modest:10", "modest:10")
	for range 2 {
		takeNext(t, q, 0)
	}
	offer(t, q, 0, "greedy:10") // its list was empty meanwhile
	if ref, _ := takeNext(t, q, 0); ref != 3 {
		t.Errorf("request %d came first: the tenant's debt was forgotten", ref)
	}
}

func TestGuaranteedShare(t *testing.T) {
	q := mustQueue(t, Config{MaxRequests: 2000, SharePercent: [inference.NumClasses]int{0, 20, 10}})
	for range 200 {
		offer(t, q, inference.Interactive, "a:10")
		offer(t, q, inference.Default, "a:10")
		offer(t, q, inference.Batch, "a:10")
	}
	var taken [inference.NumClasses]int
	for range 132 {
		for _, c := range q.Order() {
			if _, ok := takeNext(t, q, c); ok {
				taken[c]++
				break
			}
		}
	}
	// A class is owed its share of all work of higher classes.
	if taken[0] != 100 || taken[1] != 20 || taken[2] != 12 {
		t.Errorf("classes were served %v times", taken)
	}
}

// Whatever requests cost and however many come, a class that waits gets its share
// of the work of higher classes except for one request, and no more than that beside
// higher classes that wait too.
func TestSharesHoldForRandomCosts(t *testing.T) {
	const most = 500 // of one request
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 11))
		cfg := Config{MaxRequests: 1000, SharePercent: [inference.NumClasses]int{0, 1 + rng.IntN(50), 1 + rng.IntN(50)}}
		q := mustQueue(t, cfg)
		add := func(c inference.Class) {
			it := Item{Ref: q.offers, Tenant: strconv.Itoa(rng.IntN(5)), Class: c, Cost: 1 + rng.Uint64N(most)}
			if _, err := q.Offer(it); err != nil {
				t.Fatal(err)
			}
		}
		for c := range inference.Class(inference.NumClasses) {
			for range 10 {
				add(c)
			}
		}
		var used [inference.NumClasses]float64
		for turn := range 3000 {
			c := q.Order()[0]
			q.Scan(c, false)
			_, ticket, _ := q.Next()
			e, _ := q.entries.index(uint64(ticket))
			cost := q.entries.at(e).item.Cost
			q.Done(q.Take(cost))
			q.EndScan()
			used[c] += float64(cost)
			add(c)
			higher := 0.0
			for c := range used {
				owed := higher * float64(cfg.SharePercent[c]) / 100
				if c > 0 && (used[c] < owed-2*most || used[c] > owed+2*most) {
					t.Fatalf("seed %d, turn %d: class %d had %.0f of %.0f of higher classes, want %d %%",
						seed, turn, c, used[c], higher, cfg.SharePercent[c])
				}
				higher += used[c]
			}
		}
	}
}

func TestScanSkipsAFewAndKeepsTurns(t *testing.T) {
	q := mustQueue(t, Config{LookAhead: 4})
	offer(t, q, 0, "a:1", "a:1", "a:1", "a:1", "b:1", "b:1", "b:1", "c:1")
	q.Scan(0, false)
	var seen []uint64
	for {
		ref, _, ok := q.Next()
		if !ok {
			break
		}
		seen = append(seen, ref)
		q.Skip()
	}
	q.EndScan()
	check(t, q)
	if want := []uint64{1, 2, 5, 6}; !slices.Equal(seen, want) {
		t.Errorf("a scan looked at %v, want %v: two of each tenant, four in all", seen, want)
	}
	q.Scan(0, false)
	q.Next()
	q.Skip()
	if ref, _, _ := q.Next(); ref != 2 {
		t.Fatalf("second is %d", ref)
	}
	q.Done(q.Take(10))
	if ref, _, _ := q.Next(); ref != 5 {
		t.Errorf("after tenant a was served the scan goes on with %d, want tenant b", ref)
	}
	q.EndScan()
	check(t, q)
	if got := takeAll(t, q); !slices.Equal(got, []uint64{5, 8, 1, 6, 3, 7, 4}) {
		t.Errorf("later turns: %v", got)
	}
}

func TestBounds(t *testing.T) {
	q := mustQueue(t, Config{MaxRequests: 3, MaxTokens: 100})
	big, err := q.Offer(Item{Tokens: 500})
	if err != nil {
		t.Fatalf("a prompt above the bound may wait alone: %v", err)
	}
	refuse := func(tokens int, what string) {
		t.Helper()
		_, err := q.Offer(Item{Tokens: tokens})
		var limit *inference.LimitError
		if !errors.Is(err, inference.ErrQueueFull) || !errors.As(err, &limit) || limit.What != what || limit.Need <= limit.Limit {
			t.Errorf("got %v, want %q", err, what)
		}
		check(t, q)
	}
	refuse(1, "waiting prompt tokens")
	q.Remove(big)
	offer(t, q, 0, "a:40", "b:40")
	refuse(21, "waiting prompt tokens")
	offer(t, q, 0, "c:20")
	refuse(0, "waiting requests")
	if _, err := q.Offer(Item{Class: 9}); !errors.Is(err, inference.ErrInvalid) {
		t.Errorf("class 9: %v", err)
	}
	if q.Len() != 3 || q.Tokens() != 100 || q.Waiting(0) != 3 {
		t.Errorf("%d items, %d tokens", q.Len(), q.Tokens())
	}
	for _, cfg := range []Config{{MaxRequests: -1}, {LookAhead: -1}, {SharePercent: [3]int{0, 101, 0}}} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%+v was accepted", cfg)
		}
	}
}

func TestTicketsGoStale(t *testing.T) {
	q := mustQueue(t, Config{})
	old := offer(t, q, 0, "a:1")[0]
	if !q.Remove(old) || q.Remove(old) {
		t.Error("an item leaves once")
	}
	offer(t, q, 0, "a:1")
	if _, ok := q.Position(old); ok || q.Remove(old) || q.Remove(Ticket(1<<40)) {
		t.Error("a stale ticket named a later item")
	}
}

func TestExpire(t *testing.T) {
	q := mustQueue(t, Config{})
	var tickets []Ticket
	for i, due := range []int64{30, 10, 0, 20, 10} {
		id, err := q.Offer(Item{Ref: uint64(i), Tenant: strconv.Itoa(i), Until: due})
		if err != nil {
			t.Fatal(err)
		}
		tickets = append(tickets, id)
	}
	q.Remove(tickets[3])
	var got []string
	for now := int64(5); now < 40; now += 5 {
		for {
			ref, ok := q.Expire(now)
			if !ok {
				break
			}
			check(t, q)
			got = append(got, fmt.Sprintf("%d@%d", ref, now))
		}
	}
	if want := []string{"1@10", "4@10", "0@30"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestPosition(t *testing.T) {
	q := mustQueue(t, Config{})
	batch := offer(t, q, inference.Batch, "a:1")
	ts := offer(t, q, inference.Interactive, "a:1", "a:1", "a:1", "b:1", "b:1")
	for i, want := range []int{0, 2, 4, 0, 2} {
		if got, ok := q.Position(ts[i]); !ok || got != want {
			t.Errorf("item %d: %d ahead, want %d", i, got, want)
		}
	}
	if got, _ := q.Position(batch[0]); got != 5 {
		t.Errorf("the lower class has %d ahead, want 5", got)
	}
}

func TestIdleTenantsAreForgotten(t *testing.T) {
	q := mustQueue(t, Config{MaxIdleTenants: 10})
	for i := range 1000 {
		offer(t, q, 0, fmt.Sprintf("tenant %d:10", i))
		takeNext(t, q, 0)
	}
	if n := len(q.byKey); n > 11 {
		t.Errorf("%d tenants are remembered, limit 10", n)
	}
	if n := len(q.flows.slots); n > 20 {
		t.Errorf("%d flow slots", n)
	}
}

func TestCountersAreRebased(t *testing.T) {
	q := mustQueue(t, Config{MaxRequests: 100})
	offer(t, q, 0, "a:10", "b:10", "b:10")
	for i := range q.flows.slots { // as after years of service
		q.flows.slots[i].value.service += rebaseAbove - 1000
	}
	for want := range uint64(2) {
		if ref, _ := takeNext(t, q, 0); ref != want+1 {
			t.Fatalf("first turns: %d", ref)
		}
	}
	offer(t, q, 0, "a:10")
	if q.flows.at(0).service > rebaseAbove/2 {
		t.Errorf("service is still %d", q.flows.at(0).service)
	}
	if got := takeAll(t, q); !slices.Equal(got, []uint64{4, 3}) && !slices.Equal(got, []uint64{3, 4}) {
		t.Errorf("after rebasing: %v", got)
	}
}

func TestSoonestDueFirstButTheOldestIsNotForgotten(t *testing.T) {
	q := mustQueue(t, Config{MaxRequests: 1000})
	add := func(ref uint64, due int64) {
		if _, err := q.Offer(Item{Ref: ref, Due: due, Cost: 1}); err != nil {
			t.Fatal(err)
		}
		check(t, q)
	}
	for ref, due := range []int64{0, 50, 20, 0, 30, 20} {
		add(uint64(ref+1), due)
	}
	if got, want := takeAll(t, q), []uint64{3, 6, 5, 2, 1, 4}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v: soonest first, then by age", got, want)
	}
	// However many come that are due, who came first is passed by no more than
	// four in a row.
	for old := range uint64(5) {
		add(old+1, 0)
	}
	taken := uint64(0)
	for turn := 1; taken < 5; turn++ {
		add(uint64(100+turn), int64(1000-turn))
		if ref, _ := takeNext(t, q, 0); ref < 100 {
			if taken++; ref != taken || turn > 5*int(taken) {
				t.Errorf("request %d has turn %d, want request %d by turn %d", ref, turn, taken, 5*taken)
			}
		}
	}
}

func TestWhoGivesWayInAFullQueue(t *testing.T) {
	q := mustQueue(t, Config{MaxRequests: 8})
	items := []Item{
		1: {Class: inference.Default},
		2: {Class: inference.Default, Retries: 1},
		3: {Class: inference.Batch},
		4: {Class: inference.Batch, Retries: 2},
		5: {Class: inference.Interactive, OverQuota: true},
		6: {Class: inference.Batch},
		7: {Class: inference.Interactive},
		8: {Class: inference.Interactive, Retries: 1},
	}
	for ref := uint64(1); ref < 9; ref++ {
		items[ref].Ref, items[ref].Tenant = ref, fmt.Sprint(ref)
		if _, err := q.Offer(items[ref]); err != nil {
			t.Fatal(err)
		}
	}
	push := func(it Item) (gone []uint64, err error) {
		it.Ref, it.Tenant = 100+q.offers, fmt.Sprint("new ", q.offers)
		for {
			ref, ok := q.Shed(it)
			if !ok {
				break
			}
			gone = append(gone, ref)
			check(t, q)
		}
		_, err = q.Offer(it)
		check(t, q)
		return gone, err
	}
	if gone, err := push(Item{Class: inference.Batch}); gone != nil || !errors.Is(err, inference.ErrQueueFull) {
		t.Errorf("%v gave way to one of the lowest class, %v", gone, err)
	}
	if gone, err := push(Item{Class: inference.Interactive, OverQuota: true}); gone != nil || err == nil {
		t.Errorf("%v gave way to one beyond its quota, %v", gone, err)
	}
	if gone, err := push(Item{Class: inference.Default, Choices: 5}); gone != nil || err == nil {
		t.Errorf("%v gave way to a request that there is no room for even then, %v", gone, err)
	}
	var all []uint64
	for range 5 {
		gone, err := push(Item{Class: inference.Default})
		all = append(all, gone...)
		if (err == nil) != (len(gone) == 1) {
			t.Errorf("%v gave way, %v", gone, err)
		}
	}
	if want := []uint64{4, 6, 5, 3}; !slices.Equal(all, want) {
		t.Errorf("%v gave way to the default class, want %v", all, want)
	}
	if gone, err := push(Item{Class: inference.Interactive}); err != nil || !slices.Equal(gone, []uint64{2}) {
		t.Errorf("%v gave way to an interactive request, %v; want the retry", gone, err)
	}
}

// In a class that gives way, the tenant goes first that has had the most by its weight; of
// one tenant retries, and then the youngest.
func TestTheMostServedTenantGivesWayFirst(t *testing.T) {
	q := mustQueue(t, Config{MaxRequests: 12})
	ref := uint64(0)
	offer := func(it Item) uint64 {
		t.Helper()
		ref++
		it.Ref = ref
		if _, err := q.Offer(it); err != nil {
			t.Fatal(err)
		}
		check(t, q)
		return ref
	}
	serve := func(it Item, cost uint64) {
		offer(it)
		q.Scan(it.Class, false)
		q.Next()
		q.Done(q.Take(cost))
		q.EndScan()
	}
	batch := func(tenant string) Item { return Item{Tenant: tenant, Class: inference.Batch} }
	heavy, light, large := batch("heavy"), batch("light"), batch("large")
	large.Weight = 10
	serve(heavy, 300)
	serve(large, 2000) // 200 by weight
	offer(light)
	retry, beyond, urgent := heavy, heavy, heavy
	retry.Retries = 1
	beyond.OverQuota = true
	urgent.Class, urgent.OverQuota = inference.Interactive, true
	order := []uint64{
		offer(retry), offer(heavy), offer(heavy), offer(large), offer(light), offer(urgent), offer(beyond),
	}
	lightRetry := light
	lightRetry.Retries = 2
	offer(lightRetry)
	offer(Item{Tenant: "x", Class: inference.Default})
	offer(Item{Tenant: "y", Class: inference.Default})
	offer(Item{Tenant: "z", Class: inference.Default})
	if order[0] != 4 || q.Len() != 12 {
		t.Fatalf("%v, %d wait", order, q.Len())
	}
	var gone []uint64
	for i := range 10 {
		it := Item{Tenant: fmt.Sprint("new ", i), Class: inference.Interactive, Ref: uint64(100 + i)}
		for r, ok := q.Shed(it); ok; r, ok = q.Shed(it) {
			gone = append(gone, r)
			check(t, q)
		}
		if _, err := q.Offer(it); err != nil {
			t.Fatal(err)
		}
	}
	// heavy: the retry, then the youngest; then large; then those of no debt.
	if want := []uint64{4, 10, 6, 5, 7, 11, 9, 8, 3, 14}; !slices.Equal(gone, want) {
		t.Errorf("%v gave way, want %v", gone, want)
	}
}

// A tenant at ten times the load of seven others, all of class batch, in a queue that
// interactive requests push out of: what gives way is the flooding tenant's.
func TestTheFloodingTenantIsShed(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 77))
		q := mustQueue(t, Config{MaxRequests: 64, SharePercent: [inference.NumClasses]int{0, 0, 50}})
		shed, offered := map[string]int{}, map[string]int{}
		tenants := map[uint64]string{}
		ref := uint64(0)
		for range 20_000 {
			ref++
			it := Item{Ref: ref, Tenant: fmt.Sprint("normal ", rng.IntN(7)), Class: inference.Batch, Tokens: 1, Cost: 10, Work: 30}
			switch n := rng.IntN(100); {
			case n < 50:
				it.Tenant = "flood"
			case n < 85:
			default:
				it.Tenant, it.Class = "above", inference.Interactive
			}
			tenants[ref] = it.Tenant
			offered[it.Tenant]++
			for r, ok := q.Shed(it); ok; r, ok = q.Shed(it) {
				shed[tenants[r]]++
			}
			if _, err := q.Offer(it); err != nil && !errors.Is(err, inference.ErrTenantQueueFull) && !errors.Is(err, inference.ErrQueueFull) {
				t.Fatal(err)
			}
			if rng.IntN(2) == 0 { // half of what comes is served
				for _, c := range q.Order() {
					q.Scan(c, false)
					if _, _, ok := q.Next(); ok {
						q.Done(q.Take(uint64(5 + rng.IntN(10))))
						q.EndScan()
						break
					}
					q.EndScan()
				}
			}
		}
		normal := 0
		for tenant, n := range shed {
			if tenant != "flood" {
				normal += n
			}
		}
		check(t, q)
		if normal*6 > shed["flood"] {
			t.Errorf("seed %d: %d requests of the flood were shed, and %d of others", seed, shed["flood"], normal)
		}
		t.Logf("seed %d: of %d requests shed %d were the flood's", seed, normal+shed["flood"], shed["flood"])
	}
}

// naive is the queue without heaps, lists and lazy ranks: every question is
// answered by looking at everything.
type naive struct {
	share   [inference.NumClasses]int
	items   []naiveItem
	service map[flowKey]uint64
	turn    map[flowKey]uint64
	scale   map[flowKey]uint64
	floor   [inference.NumClasses]uint64
	credit  [inference.NumClasses]uint64
	hurried map[flowKey]int
	places  uint64
}

type naiveItem struct {
	Item
	number uint64
	place  uint64 // in line; 0 while another of its group is
	aside  bool
}

func (n *naive) key(it Item) flowKey { return flowKey{it.Tenant, it.Class} }

func (n *naive) waiting(c inference.Class) (all []naiveItem) {
	for _, it := range n.items {
		if it.Class == c {
			all = append(all, it)
		}
	}
	return all
}

// own is how many items of the same tenant and class wait.
func (n *naive) own(it Item) (own int) {
	for _, o := range n.items {
		if n.key(o.Item) == n.key(it) {
			own++
		}
	}
	return own
}

// head is the item whose turn it is in a scan that has skipped one: of the least
// served flow the one that is due first, or after four such turns the first in
// line. Those that were set aside count only if they are wanted.
func (n *naive) head(c inference.Class, aside bool, skipped uint64) (best naiveItem, ok bool) {
	var skippedKey flowKey
	for _, it := range n.items {
		if it.Ref == skipped {
			skippedKey = n.key(it.Item)
		}
	}
	for _, it := range n.waiting(c) {
		k, b := n.key(it.Item), n.key(best.Item)
		byDue := n.hurried[k] < maxDueTurns || skipped != 0 && k == skippedKey
		switch {
		case it.place == 0 || it.aside && !aside || it.Ref == skipped:
		case !ok, n.service[k] < n.service[b], n.service[k] == n.service[b] && n.turn[k] < n.turn[b]:
			best, ok = it, true
		case k != b:
		case byDue && it.hasDue() && (!best.hasDue() || it.Due < best.Due || it.Due == best.Due && it.number < best.number):
			best = it
		case (!byDue || !it.hasDue() && !best.hasDue()) && it.place < best.place:
			best = it
		}
	}
	return best, ok
}

func (it *naiveItem) hasDue() bool { return it.Due != 0 && !it.aside }

// room is the bounds applied to an item, as if those that gone names had left.
func (n *naive) room(b Bounds, it Item, gone func(Item) bool) error {
	var all, own Waiting
	for _, o := range n.items {
		if n.key(o.Item) == n.key(it) {
			own.Add(o.waiting())
		}
		if !gone(o.Item) {
			all.Add(o.waiting())
		}
	}
	return b.Room(all, own, it.waiting())
}

// shed is the item that gives way to another.
func (n *naive) shed(b Bounds, it Item) (ref uint64) {
	grade := func(o Item) int {
		if o.OverQuota {
			return int(inference.Batch)
		}
		return int(o.Class)
	}
	lower := func(o Item) bool { return grade(o) > grade(it) }
	if n.room(b, it, func(Item) bool { return false }) == nil || n.room(b, it, lower) != nil {
		return 0
	}
	beyond := func(o Item) uint64 {
		least, work := n.service[n.key(o)], uint64(0)
		for _, w := range n.waiting(o.Class) {
			least = min(least, n.service[n.key(w.Item)])
			if w.Tenant == o.Tenant {
				work += max(w.Cost, w.Work)
			}
		}
		return (n.service[n.key(o)]-least)/unitScale + work/(unitScale/max(n.scale[n.key(o)], 1))
	}
	var worst naiveItem
	for _, o := range n.items {
		worse := cmp.Or(grade(o.Item)-grade(worst.Item), cmp.Compare(beyond(o.Item), beyond(worst.Item)),
			min(o.Retries, 1)-min(worst.Retries, 1), int(o.number)-int(worst.number)) > 0
		if lower(o.Item) && (ref == 0 || worse) {
			worst, ref = o, o.Ref
		}
	}
	return ref
}

// expire is the item whose time to wait ended first.
func (n *naive) expire(now int64) (ref uint64) {
	var first naiveItem
	for _, o := range n.items {
		if o.Until != 0 && o.Until <= now && (ref == 0 || o.Until < first.Until || o.Until == first.Until && o.number < first.number) {
			first, ref = o, o.Ref
		}
	}
	return ref
}

// line puts an item in line unless one of its group is.
func (n *naive) line(i int) {
	it := &n.items[i]
	if it.Group != "" && slices.ContainsFunc(n.items, func(o naiveItem) bool {
		return o.place > 0 && o.Group == it.Group && n.key(o.Item) == n.key(it.Item)
	}) {
		return
	}
	n.places++
	it.place = n.places
}

func (n *naive) offer(it Item, number uint64) {
	k := n.key(it)
	backlogged := slices.ContainsFunc(n.items, func(o naiveItem) bool { return n.key(o.Item) == k })
	if !backlogged {
		lift := n.floor[it.Class]
		if h, ok := n.head(it.Class, true, 0); ok {
			lift = max(lift, n.service[n.key(h.Item)])
		}
		n.service[k] = max(n.service[k], lift)
		n.turn[k] = number
		n.hurried[k] = 0
	}
	n.scale[k] = unitScale / uint64(min(max(it.Weight, 1), MaxWeight))
	n.items = append(n.items, naiveItem{Item: it, number: number})
	n.line(len(n.items) - 1)
}

func (n *naive) remove(ref uint64) {
	i := slices.IndexFunc(n.items, func(it naiveItem) bool { return it.Ref == ref })
	gone := n.items[i]
	c := gone.Class
	n.items = slices.Delete(n.items, i, i+1)
	next := slices.IndexFunc(n.items, func(o naiveItem) bool {
		return o.place == 0 && o.Group == gone.Group && n.key(o.Item) == n.key(gone.Item)
	})
	if next >= 0 {
		n.line(next)
	}
	if len(n.waiting(c)) == 0 {
		n.credit[c] = 0
	}
}

func (n *naive) take(it naiveItem, cost uint64) {
	k, c := n.key(it.Item), it.Class
	n.floor[c] = max(n.floor[c], n.service[k])
	n.credit[c] -= min(n.credit[c], 100*cost)
	for l := c + 1; l < inference.NumClasses; l++ {
		if len(n.waiting(l)) > 0 {
			n.credit[l] += cost * uint64(n.share[l])
		}
	}
	first := !slices.ContainsFunc(n.items, func(o naiveItem) bool {
		return n.key(o.Item) == k && o.place > 0 && !o.aside && o.place < it.place
	})
	switch {
	case first && !it.aside:
		n.hurried[k] = 0
	case it.hasDue():
		n.hurried[k]++
	}
	n.remove(it.Ref)
	n.service[k] += cost * n.scale[k]
}

func (n *naive) order() (out [inference.NumClasses]inference.Class) {
	var due, rest []inference.Class
	for c := range inference.Class(inference.NumClasses) {
		h, ok := n.owed(c)
		if ok && n.credit[c] > 0 && n.credit[c] >= 100*h.Cost {
			due = append(due, c)
		} else {
			rest = append(rest, c)
		}
	}
	copy(out[:], append(due, rest...))
	return out
}

// owed is the item that a class's guaranteed share pays for: of the least served
// flow the first in line, or else of those set aside.
func (n *naive) owed(c inference.Class) (naiveItem, bool) {
	first, ok := n.head(c, true, 0)
	if !ok {
		return first, false
	}
	for _, it := range n.waiting(c) {
		if it.place > 0 && !it.aside && n.key(it.Item) == n.key(first.Item) && (first.aside || it.place < first.place) {
			first = it
		}
	}
	return first, true
}

// compareWithNaive runs random operations on both and wants the same answers.
func compareWithNaive(t *testing.T, data func() int) {
	cfg := Config{MaxRequests: 40, SharePercent: [inference.NumClasses]int{0, 30, 15}}
	q := mustQueue(t, cfg)
	n := &naive{
		share: cfg.SharePercent, service: map[flowKey]uint64{}, turn: map[flowKey]uint64{}, scale: map[flowKey]uint64{},
		hurried: map[flowKey]int{},
	}
	now := int64(0)
	tickets := map[uint64]Ticket{}
	type admitted struct {
		flow FlowID
		key  flowKey
	}
	var running []admitted
	for ref := uint64(1); ; ref++ {
		op := data()
		if op < 0 {
			return
		}
		now++
		switch {
		case op%16 == 5:
			for {
				ref, ok := q.Expire(now)
				if want := n.expire(now); ok != (want != 0) || ref != want {
					t.Fatalf("at %d the time of item %d %v is over, want %d", now, ref, ok, want)
				}
				if !ok {
					break
				}
				n.remove(ref)
			}
		case op%8 < 3:
			it := Item{Ref: ref, Tenant: strconv.Itoa(data() & 7), Class: inference.Class((data() & 127) % 3), Weight: data() & 3, Tokens: data() & 31}
			it.Cost = uint64(10 * it.Tokens)
			it.Group = []string{"", "", "x", "y"}[data()&3]
			it.Due, it.Choices = int64(max(data()&7-3, 0)), 1
			rank := data() & 15
			it.OverQuota, it.Retries = rank&3 == 0, rank>>2&1
			if rank > 12 {
				it.Until = now + int64(data()&63)
			}
			for {
				gone, ok := q.Shed(it)
				if want := n.shed(q.Bounds(), it); ok != (want != 0) || gone != want {
					t.Fatalf("item %d %v gives way to %+v, want %d", gone, ok, it, want)
				}
				if !ok {
					break
				}
				n.remove(gone)
			}
			if id, err := q.Offer(it); err == nil {
				tickets[ref] = id
				n.offer(it, q.offers)
			} else if own, free := n.own(it), cfg.MaxRequests-len(n.items); errors.Is(err, inference.ErrTenantQueueFull) && own+1 <= max(free-1, tenantRoom) ||
				errors.Is(err, inference.ErrQueueFull) && free > 0 {
				t.Fatalf("%d of the tenant wait, %d are free: %v", own, free, err)
			}
		case op%8 == 3 && len(n.items) > 0:
			gone := n.items[(data()&127)%len(n.items)].Ref
			if !q.Remove(tickets[gone]) {
				t.Fatalf("item %d is not in the queue", gone)
			}
			n.remove(gone)
		case op%8 == 4 && len(running) > 0:
			r := running[(data()&127)%len(running)]
			tokens := data() & 15
			q.Charge(r.flow, uint64(20*tokens))
			n.service[r.key] += uint64(20*tokens) * n.scale[r.key]
		case op%16 == 13 && len(running) > 8:
			q.Done(running[0].flow)
			running = running[1:]
		default:
			if q.Order() != n.order() {
				t.Fatalf("order %v, want %v", q.Order(), n.order())
			}
			c := inference.Class((data() & 127) % 3)
			aside := data()&1 == 0
			q.Scan(c, aside)
			got, _, ok := q.Next()
			want, wantOK := n.head(c, aside, 0)
			if ok && got == want.Ref && data()&3 == 0 { // it does not fit
				q.Skip()
				got, _, ok = q.Next()
				want, wantOK = n.head(c, aside, want.Ref)
			}
			if ok != wantOK || ok && got != want.Ref {
				t.Fatalf("next of class %d: %d %v, want %d %v", c, got, ok, want.Ref, wantOK)
			}
			if ok && !want.aside && data()&3 == 0 { // it waits for something of its own
				q.SetAside()
				i := slices.IndexFunc(n.items, func(o naiveItem) bool { return o.Ref == want.Ref })
				n.items[i].aside = true
			} else if ok {
				cached := min(data()&15, want.Tokens)
				cost := uint64(10*want.Tokens - 9*cached)
				flow := q.Take(cost)
				n.take(want, cost)
				running = append(running, admitted{flow, n.key(want.Item)})
			}
			q.EndScan()
		}
		check(t, q)
		if q.Len() != len(n.items) {
			t.Fatalf("%d items, want %d", q.Len(), len(n.items))
		}
	}
}

func TestQueueEqualsNaiveQueue(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 5))
		left := 2000
		compareWithNaive(t, func() int {
			if left--; left < 0 {
				return -1
			}
			return rng.IntN(256)
		})
	}
}

func FuzzQueue(f *testing.F) {
	f.Add([]byte("offer, take, charge and remove in some order, more than once"))
	f.Add([]byte{0, 1, 1, 1, 9, 0, 1, 1, 1, 9, 7, 1, 3, 4, 0, 5, 7, 1, 0, 6, 1, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4000 {
			return
		}
		compareWithNaive(t, func() int {
			if len(data) == 0 {
				return -1
			}
			v := int(data[0])
			data = data[1:]
			return v
		})
	})
}

func BenchmarkOfferTake(b *testing.B) {
	for _, waiting := range []int{1000, 100_000} {
		b.Run(fmt.Sprintf("waiting=%d", waiting), func(b *testing.B) {
			q := mustQueue(b, Config{MaxRequests: 2*waiting + 1})
			var tenants [64]string
			for i := range tenants {
				tenants[i] = strconv.Itoa(i)
			}
			for i := range waiting {
				if _, err := q.Offer(Item{Tenant: tenants[i%64], Tokens: 10}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i++
				if _, err := q.Offer(Item{Tenant: tenants[i%64], Tokens: 10}); err != nil {
					b.Fatal(err)
				}
				q.Scan(0, false)
				q.Next()
				q.Done(q.Take(10))
				q.EndScan()
			}
		})
	}
}

// One request of a full queue gives way to each that comes.
func BenchmarkShed(b *testing.B) {
	for _, tenants := range []int{80, 1000} {
		b.Run(fmt.Sprintf("tenants=%d", tenants), func(b *testing.B) {
			const places = 1024
			q := mustQueue(b, Config{MaxRequests: places})
			names := make([]string, tenants)
			for i := range names {
				names[i] = strconv.Itoa(i)
			}
			fill := func(i int) {
				if _, err := q.Offer(Item{Ref: uint64(i % tenants), Tenant: names[i%tenants], Class: inference.Batch, Tokens: 10}); err != nil {
					b.Fatal(err)
				}
			}
			for i := range places {
				fill(i)
				if i%4 == 0 { // so that tenants have had different service
					q.Scan(inference.Batch, false)
					q.Next()
					q.Done(q.Take(uint64(1 + i%97)))
					q.EndScan()
				}
			}
			for i := 0; q.Len() < places; i++ {
				fill(i)
			}
			b.ReportAllocs()
			for b.Loop() {
				it := Item{Tenant: "above", Class: inference.Interactive, Tokens: 10}
				gone, ok := q.Shed(it)
				if !ok {
					b.Fatal("no request gives way")
				}
				t, err := q.Offer(it)
				if err != nil {
					b.Fatal(err)
				}
				q.Remove(t)
				fill(int(gone))
			}
		})
	}
}
