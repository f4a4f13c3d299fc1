"""What every Spark job needs: session, configuration, classes, workers, reports."""
