package outputlen

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestLengthBinsCoverEveryLength(t *testing.T) {
	last := -1
	for n := 1; n < 1<<15; n++ {
		b := lengthBin(n)
		if b < last || b > last+1 || n > lengthOf(b) || lengthOf(b) > n+n/4 {
			t.Fatalf("length %d is in bin %d, which ends at %d; the one before was in %d", n, b, lengthOf(b), last)
		}
		last = b
	}
	if b := lengthBin(1 << 30); b != lengthBins-1 {
		t.Errorf("a huge length is in bin %d, want the last one", b)
	}
}

// What is expected of an answer is the quantile of those that came as far, as
// counted one by one.
func TestExpectedLengthIsTheQuantileOfThoseThatCameAsFar(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 31))
	l := NewLengths()
	a := l.Of("a")
	if got := l.Expected(a, 4096, 0); got != firstLength {
		t.Errorf("before any answer %d tokens are expected, want %d", got, firstLength)
	}
	var seen []int
	for range 20_000 {
		n := 1 + int(rng.ExpFloat64()*1000)
		seen = append(seen, n)
		l.Learn("a", 4096, n)
	}
	slices.Sort(seen)
	for _, produced := range []int{1, 100, 700, 1500} {
		at, _ := slices.BinarySearch(seen, produced)
		want := seen[at+int(lengthQuantile*float64(len(seen)-at))]
		if got := l.Expected(a, 4096, produced); float64(got) < 0.6*float64(want) || float64(got) > 1.6*float64(want) {
			t.Errorf("after %d tokens %d are expected, want about %d", produced, got, want)
		}
	}
	if got := l.Expected(a, 50, 0); got != 50 {
		t.Errorf("with a limit of 50 %d are expected", got)
	}
	if got := l.Expected(l.Of("b"), 4096, 0); got < 400 || got > 1100 {
		t.Errorf("of a tenant that is new %d are expected, want what others have", got)
	}
}

func TestTenantsAnswersAreBounded(t *testing.T) {
	l := NewLengths()
	for i := range 10 * maxTenants {
		l.Of(string(rune('a'+i%26)) + string(rune(i)))
	}
	if len(l.tenants) != maxTenants || len(l.names) != maxTenants {
		t.Errorf("%d tenants by name, %d in the ring, want %d", len(l.tenants), len(l.names), maxTenants)
	}
	for _, name := range l.names {
		if l.tenants[name] == nil {
			t.Errorf("tenant %q is in the ring only", name)
		}
	}
}
