"""Style sheet and script of a sequence diagram page."""

from __future__ import annotations

ROW, GAP, TOP, LEFT, LANE, LETTER, BAND = 20, 18, 20, 110, 250, 7, 30
"""Pixels: height of a row, of the gap for hidden rows, above the first row; left of the first lane, between lanes;
width of a letter, of a lane's band."""

STYLE = """
:root{--paper:#fff;--ink:#1c2430;--soft:#6a7482;--line:#c9d1da;--panel:#f4f6f8;--down:#e3e7eb;--leader:#2f9e58;
--follower:#9cc5ee;--campaign:#efb540;--other:#c6ccd3;--fault:#d03b3b;--message:#3867b5;--disk:#7a5ab5;--client:#0f7f86}
@media(prefers-color-scheme:dark){:root{--paper:#14181d;--ink:#e4e8ed;--soft:#939eab;--line:#3a434d;--panel:#1d232a;
--down:#2a3138;--leader:#3fb068;--follower:#3f6d9c;--campaign:#c9912b;--other:#535d68;--fault:#f0716d;
--message:#7fa8ec;--disk:#b49aea;--client:#4bbcc3}}
*{box-sizing:border-box}body{margin:0;background:var(--paper);color:var(--ink);font:13px/1.45 system-ui,sans-serif}
header{padding:14px 20px 8px}h1{font-size:17px;margin:0 0 4px}p{margin:2px 0;color:var(--soft);max-width:110ch}
p.broken{color:var(--fault);font-weight:600;white-space:pre-wrap}
nav{position:sticky;top:0;z-index:2;background:var(--paper);border-bottom:1px solid var(--line);padding:6px 20px 0}
nav label{display:inline-block;white-space:nowrap;margin-right:14px;cursor:pointer}
nav i{display:inline-block;width:11px;height:11px;border-radius:2px;
margin:0 4px 0 12px;vertical-align:-1px}#lanes{position:relative;height:22px;font-weight:600}
#lanes span{position:absolute;transform:translateX(-50%);white-space:nowrap}#drawing{padding:0 20px 120px}
svg{display:block}text{fill:var(--ink);font:11px ui-monospace,Menlo,Consolas,monospace}.time{fill:var(--soft)}
.lifeline{stroke:var(--line)}.band{opacity:.9}.entry{cursor:pointer}.entry:hover text{font-weight:700}
.message line{stroke:var(--message)}.message polygon{fill:var(--message)}.idle{opacity:.35}
.lost line{stroke:var(--fault);stroke-dasharray:5 4}.lost text{fill:var(--fault)}
.underway line{stroke-dasharray:1 4;stroke-width:2}
.fault text,.process text,.verdict text{fill:var(--fault);font-weight:600}.disk text{fill:var(--disk)}
.client text{fill:var(--client)}
nav i.arrow{width:26px;height:0;border-radius:0;border-top:2px solid var(--message);vertical-align:4px}
nav i.never{border-top:2px dashed var(--fault)}nav i.travels{border-top-style:dotted}nav details{padding:4px 0}
.folded{opacity:1}.folded text{fill:var(--soft)}.gap{fill:var(--soft);font-style:italic}.stroke{stroke:var(--line)}
.label,.mark,.gap{paint-order:stroke;stroke:var(--paper);stroke-width:3px;stroke-linejoin:round}
.mark{text-anchor:middle;font-weight:600;pointer-events:none}
#detail{position:fixed;left:0;right:0;bottom:0;max-height:30vh;overflow:auto;background:var(--panel);
border-top:1px solid var(--line);padding:8px 20px;white-space:pre-wrap;
font:12px ui-monospace,Menlo,Consolas,monospace}
"""

# Python computes the initial layout; `layOut` updates it when entries are hidden. `at` has the position of each row,
# for a hidden row the position of its gap; `between` computes the ends of arrows.
SCRIPT = """
const detail=document.getElementById('detail'),svg=document.querySelector('svg'),hidden=new Set();
const all=what=>[...document.querySelectorAll(what)],gaps=document.getElementById('gaps');
const entries=all('.entry'),times=all('.time'),marks=all('.mark').reverse(),at=[];
const between=row=>(at[Math.floor(row)]+at[Math.ceil(row)])/2;
entries.forEach((entry,row)=>entry.addEventListener('click',()=>detail.textContent=DETAILS[row]));
all('nav input').forEach(box=>box.addEventListener('change',()=>{
 box.checked?hidden.delete(box.value):hidden.add(box.value);layOut();}));
const draw=(name,attributes,text)=>{
 const drawn=document.createElementNS(svg.namespaceURI,name);
 Object.entries(attributes).forEach(pair=>drawn.setAttribute(...pair));
 drawn.textContent=text;gaps.append(drawn);};
const left=(from,to,y)=>{
 const count=COUNTS.slice(from,to).reduce((sum,each)=>sum+each,0);
 const ms=TIMES[Math.min(to,TIMES.length-1)]-TIMES[Math.max(from-1,0)];
 draw('line',{class:'stroke',x1:LEFT,x2:svg.width.baseVal.value,y1:y,y2:y,'stroke-dasharray':'2 6'},'');
 draw('text',{class:'gap',x:LEFT+10,y:y+4},`\\u2026 ${count} hidden, ${ms.toFixed(1)} ms`);};
function layOut(){
 let y=TOP,since=-1,shown='';
 gaps.replaceChildren();
 entries.forEach((entry,row)=>{
  const hide=[...entry.classList,entry.dataset.name].some(kind=>hidden.has(kind));
  if(!hide&&since>=0){left(since,row,y);y+=GAP;since=-1;}
  if(hide&&since<0)since=row;
  at[row]=y;
  entry.style.display=hide?'none':'';
  times[row].style.display=hide||times[row].textContent===shown?'none':'inline';
  if(!hide){shown=times[row].textContent;y+=ROW;}});
 if(since>=0){left(since,entries.length,y);y+=GAP;}
 at[-1]=0;at[entries.length]=y;
 svg.setAttribute('height',y+TOP);
 all('.lifeline').forEach(line=>line.setAttribute('y2',y+TOP));
 entries.forEach((entry,row)=>{
  entry.setAttribute('transform',`translate(0,${at[row]})`);
  times[row].setAttribute('y',at[row]+4);
  const line=entry.querySelector('line'),head=entry.querySelector('polygon');
  const down=line?Math.max(0,between(+entry.dataset.foot)-at[row]):0;
  if(line)line.setAttribute('y2',down);
  if(head)head.setAttribute('transform',`translate(0,${down})`);});
 all('.band').forEach(band=>{
  const top=at[band.dataset.from];
  band.setAttribute('y',top);band.setAttribute('height',at[band.dataset.to]-top);});
 const below={};
 marks.forEach(mark=>{
  const top=at[mark.dataset.row],lane=mark.getAttribute('x'),next=below[lane];
  const near=next&&next.top-top<(next.text===mark.textContent?5*ROW:ROW-4);
  mark.setAttribute('y',top+14);
  mark.style.display=near?'none':'';
  if(!near)below[lane]={top,text:mark.textContent};});}
"""
