package metrics

import (
	"fmt"

	"choria-provision/output"

	"github.com/prometheus/client_golang/prometheus"
)

// WriteTextfile writes what g gathers to path, for the textfile collector of
// node_exporter. The file is readable by every user and replaced in one step, so
// that the collector never reads half of it. The directory must exist.
func WriteTextfile(path string, g prometheus.Gatherer) error {
	if err := prometheus.WriteToTextfile(path, g); err != nil {
		return fmt.Errorf("metrics_textfile: %w", output.WithPath(err, path))
	}
	return nil
}
