"""Reports on a lake: `report_data` collects the contents, `html_page` and `charts` render them."""
