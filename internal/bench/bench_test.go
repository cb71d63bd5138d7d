package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCallsAreReadFromGoBenchmarks(t *testing.T) {
	t.Parallel()
	const text = `goos: linux
BenchmarkRequest-2       	   10000	     86000 ns/op	        11540 calls/s	        93.0 cpu-µs/op
BenchmarkRequest-2       	   10000	     90000 ns/op	        11001.5 calls/s	        93.0 cpu-µs/op
BenchmarkStockClient-2   	     100	   6369000 ns/op	         157.0 calls/s	      6246 cpu-µs/op
BenchmarkBroadcast/1-2   	       3	 300000000 ns/op
PASS
`
	ours, stock, err := readCalls(strings.NewReader(text))
	if diff := cmp.Diff([][]float64{{11001.5, 11540}, {157}}, [][]float64{ours, stock}); err != nil || diff != "" {
		t.Errorf("%v, calls/s (-want +got):\n%s", err, diff)
	}
	if _, _, err := readCalls(strings.NewReader("PASS\n")); err == nil {
		t.Error("got no error without results, want one")
	}
}

func TestOnlyWhatWasMeasuredIsReplaced(t *testing.T) {
	t.Parallel()
	got, err := put("# Title\n"+measuredBegin+"old\n"+measuredEnd+"words\n", "new\n")
	if want := "# Title\n" + measuredBegin + "new\n" + measuredEnd + "words\n"; err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	if _, err := put("# Title\n"+measuredBegin, "new\n"); err == nil {
		t.Error("got no error without the end, want one")
	}
}
