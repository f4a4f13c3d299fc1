"""The embedded servers and the main job: what is started here is stopped here, and nothing else is
ever touched.

Doors: deploy, main_job, Report.
"""
