"""Steps: the one place that joins the rooms. It orders what they do and computes no statistic."""
