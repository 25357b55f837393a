package bridge

import (
	"slices"
	"testing"
)

func TestUnsafePortIsFetchsTable(t *testing.T) {
	if !slices.IsSorted(unsafePorts) {
		t.Fatal("the table is not ascending, so the search misses some")
	}
	for _, port := range []int{0, 1, 9, 22, 2049, 5060, 6000, 6667, 6697, 10080} {
		if !UnsafePort(port) {
			t.Errorf("port %d is taken, and no browser dials it", port)
		}
	}
	for _, port := range []int{-1, 80, 443, 1024, 5062, 6670, 8080, 8888, 10081, 40000, 65535} {
		if UnsafePort(port) {
			t.Errorf("port %d is refused, and browsers dial it", port)
		}
	}
}
